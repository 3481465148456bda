"""tiled instead of repeated

np.tile gives 0, 1, 0, 1, …: nearly every query head meets the wrong keys. Neighbours share a key head: 0, 0, 1, 1,
with np.repeat.
"""

import numpy as np


def repeat_kv(K, n_heads):
    if n_heads % len(K):
        raise ValueError("the heads can't share equally")
    return np.tile(K, (n_heads // len(K), 1, 1))
