"""÷ √d_v, not ÷ √d_k

The dot product sums over the channels of queries and keys. The width of the values has no part in it, and is the
same only by choice.
"""

import numpy as np


def attention(Q, K, V, visible):
    scores = np.where(visible, Q @ K.T / np.sqrt(V.shape[1]), -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    terms = np.exp(scores - np.where(top == -np.inf, 0, top))
    total = terms.sum(axis=-1, keepdims=True)
    weights = terms / np.where(total == 0, 1, total)
    return weights @ V
