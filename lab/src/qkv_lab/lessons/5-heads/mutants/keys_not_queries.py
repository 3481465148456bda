"""K·Qᵀ instead of Q·Kᵀ

The table of scores is turned over: the rows belong to the keys now, and the softmax shares each key among the
queries.
"""

import numpy as np


def multi_head(X, Wq, Wk, Wv, Wo, n_heads):
    Q, K, V = (split_heads(X @ W, n_heads) for W in (Wq, Wk, Wv))
    scores = K @ Q.transpose(0, 2, 1) / np.sqrt(Q.shape[-1])
    terms = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = terms / terms.sum(axis=-1, keepdims=True)
    return merge_heads(weights @ V) @ Wo
