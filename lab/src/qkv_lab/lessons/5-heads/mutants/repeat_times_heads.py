"""repeated n_heads times

Each key head is repeated as often as there are query heads for it: n_heads / n_kv_heads times.
"""

import numpy as np


def repeat_kv(K, n_heads):
    if n_heads % len(K):
        raise ValueError("the heads can't share equally")
    return np.repeat(K, n_heads, axis=0)
