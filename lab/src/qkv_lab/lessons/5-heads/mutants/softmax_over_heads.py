"""softmax over the heads

axis=0 is the heads: they would compete for each pair of tokens. Each row of each head is a whole of its own:
axis=-1.
"""

import numpy as np


def multi_head(X, Wq, Wk, Wv, Wo, n_heads):
    Q, K, V = (split_heads(X @ W, n_heads) for W in (Wq, Wk, Wv))
    scores = Q @ K.transpose(0, 2, 1) / np.sqrt(Q.shape[-1])
    terms = np.exp(scores - scores.max(axis=0, keepdims=True))
    weights = terms / terms.sum(axis=0, keepdims=True)
    return merge_heads(weights @ V) @ Wo
