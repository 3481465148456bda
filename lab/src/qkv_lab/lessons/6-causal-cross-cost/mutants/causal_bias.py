"""0 and −∞ in place of True and False

That is a bias, to be added to the scores. Asked for is a mask, which says True or False.
"""

import numpy as np


def causal(n_q, n_k):
    return np.where(np.arange(n_k) <= np.arange(n_q)[:, None] + n_k - n_q, 0.0, -np.inf)
