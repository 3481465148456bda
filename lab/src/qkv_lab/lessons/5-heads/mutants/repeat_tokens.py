"""the tokens repeated, not the heads

The heads are the first axis. Repeated along axis 1 each head has its tokens several times, and there are as few
heads as before.
"""

import numpy as np


def repeat_kv(K, n_heads):
    if n_heads % len(K):
        raise ValueError("the heads can't share equally")
    return np.repeat(K, n_heads // len(K), axis=1)
