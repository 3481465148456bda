"""the rows of the matrices split

Each head reads only its slice of the token here, as its matrices are cut along rows and columns. A head reads the
whole token: project first, split what comes out.
"""

import numpy as np


def multi_head(X, Wq, Wk, Wv, Wo, n_heads):
    def project(W):
        parts = W.reshape(n_heads, W.shape[0] // n_heads, n_heads, W.shape[1] // n_heads)
        return np.stack([x @ parts[h, :, h] for h, x in enumerate(split_heads(X, n_heads))])

    Q, K, V = project(Wq), project(Wk), project(Wv)
    scores = Q @ K.transpose(0, 2, 1) / np.sqrt(Q.shape[-1])
    terms = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return merge_heads(terms / terms.sum(axis=-1, keepdims=True) @ V) @ Wo
