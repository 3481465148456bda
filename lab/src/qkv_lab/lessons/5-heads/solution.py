import numpy as np


def split_heads(X, n_heads):
    n, width = X.shape
    if width % n_heads:
        raise ValueError(f"a width of {width} can't be cut into {n_heads} equal heads")
    return X.reshape(n, n_heads, width // n_heads).transpose(1, 0, 2)


def merge_heads(heads):
    n_heads, n, d = heads.shape
    return heads.transpose(1, 0, 2).reshape(n, n_heads * d)


def repeat_kv(K, n_heads):
    if n_heads % len(K):
        raise ValueError(f"{n_heads} query heads can't share {len(K)} key heads equally")
    return np.repeat(K, n_heads // len(K), axis=0)


def multi_head(X, Wq, Wk, Wv, Wo, n_heads):
    Q, K, V = (split_heads(X @ W, n_heads) for W in (Wq, Wk, Wv))
    scores = Q @ K.transpose(0, 2, 1) / np.sqrt(Q.shape[-1])
    terms = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = terms / terms.sum(axis=-1, keepdims=True)
    return merge_heads(weights @ V) @ Wo
