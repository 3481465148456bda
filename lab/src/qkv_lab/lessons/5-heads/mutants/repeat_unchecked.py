"""heads that can't share equally let through

7 query heads can't share 3 key heads: n_heads // n_kv_heads rounds down, and the result has too few heads. Raise
ValueError.
"""

import numpy as np


def repeat_kv(K, n_heads):
    return np.repeat(K, n_heads // len(K), axis=0)
