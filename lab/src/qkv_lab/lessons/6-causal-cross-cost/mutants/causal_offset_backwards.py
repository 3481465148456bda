"""the difference the wrong way round

Query i stands beside key i + n_k − n_q. With n_q − n_k the staircase moves away from the newest keys instead of
towards them.
"""

import numpy as np


def causal(n_q, n_k):
    return np.arange(n_k) <= np.arange(n_q)[:, None] + n_q - n_k
