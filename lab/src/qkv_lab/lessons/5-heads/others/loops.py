import numpy as np


def split_heads(X, n_heads):
    n, width = X.shape
    if width % n_heads != 0:
        raise ValueError("the heads don't divide the width")
    d = width // n_heads
    heads = np.zeros((n_heads, n, d))
    for h in range(n_heads):
        heads[h] = X[:, h * d : (h + 1) * d]
    return heads


def merge_heads(heads):
    return np.concatenate([head for head in heads], axis=1)


def repeat_kv(K, n_heads):
    group = n_heads // K.shape[0]
    if group * K.shape[0] != n_heads:
        raise ValueError("the heads can't share equally")
    return np.stack([K[h // group] for h in range(n_heads)])


def multi_head(X, Wq, Wk, Wv, Wo, n_heads):
    d_k, d_v = Wq.shape[1] // n_heads, Wv.shape[1] // n_heads
    output = np.zeros((len(X), Wo.shape[1]))
    for h in range(n_heads):
        at, out = slice(h * d_k, (h + 1) * d_k), slice(h * d_v, (h + 1) * d_v)
        Q, K, V = X @ Wq[:, at], X @ Wk[:, at], X @ Wv[:, out]
        for i in range(len(X)):
            scores = K @ Q[i] / d_k**0.5
            terms = np.exp(scores - scores.max())
            output[i] += (terms / terms.sum()) @ V @ Wo[out]
    return output
