"""√d_model instead of √d_k

The dot product of a head sums over the channels of that head. Its width is d_k, not the width of the layer.
"""

import numpy as np


def multi_head(X, Wq, Wk, Wv, Wo, n_heads):
    Q, K, V = (split_heads(X @ W, n_heads) for W in (Wq, Wk, Wv))
    scores = Q @ K.transpose(0, 2, 1) / np.sqrt(X.shape[1])
    terms = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = terms / terms.sum(axis=-1, keepdims=True)
    return merge_heads(weights @ V) @ Wo
