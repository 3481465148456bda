"""queries and keys exchanged

Rows belong to queries and columns to keys. Here it is the other way round.
"""

import numpy as np


def causal(n_q, n_k):
    return (np.arange(n_k) <= np.arange(n_q)[:, None] + n_k - n_q).T
