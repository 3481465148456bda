"""the future instead of the past

Here a token sees itself and those after it. The triangle of True lies below the diagonal, not above.
"""

import numpy as np


def causal(n_q, n_k):
    return np.arange(n_k) >= np.arange(n_q)[:, None] + n_k - n_q
