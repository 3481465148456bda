"""0 and 1 in place of True and False

As numbers they can be multiplied with scores, and then a hidden key has the score 0, which still counts. A mask is
True and False.
"""

import numpy as np


def causal(n_q, n_k):
    return (np.arange(n_k) <= np.arange(n_q)[:, None] + n_k - n_q).astype(int)
