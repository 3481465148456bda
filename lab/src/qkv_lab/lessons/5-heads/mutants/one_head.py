"""one wide head

n_heads is not used: all channels go into one dot product and one softmax. A wide head can only show the sum of what
the heads would say one by one.
"""

import numpy as np


def multi_head(X, Wq, Wk, Wv, Wo, n_heads):
    Q, K, V = ((X @ W)[None] for W in (Wq, Wk, Wv))
    scores = Q @ K.transpose(0, 2, 1) / np.sqrt(Q.shape[-1])
    terms = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = terms / terms.sum(axis=-1, keepdims=True)
    return merge_heads(weights @ V) @ Wo
