"""True where a key is hidden

True means that a query may see the key. This mask says the opposite everywhere.
"""

import numpy as np


def causal(n_q, n_k):
    return np.arange(n_k) > np.arange(n_q)[:, None] + n_k - n_q
