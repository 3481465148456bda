import numpy as np


def split_heads(X, n_heads):
    if X.shape[-1] % n_heads:
        raise ValueError("the heads don't divide the width")
    return np.einsum("nhd->hnd", X.reshape(X.shape[0], n_heads, -1))


def merge_heads(heads):
    return np.einsum("hnd->nhd", heads).reshape(heads.shape[1], -1)


def repeat_kv(K, n_heads):
    n_kv_heads, n, d = K.shape
    if n_heads % n_kv_heads:
        raise ValueError("the heads can't share equally")
    return np.einsum("gnd,r->grnd", K, np.ones(n_heads // n_kv_heads)).reshape(n_heads, n, d)


def multi_head(X, Wq, Wk, Wv, Wo, n_heads):
    d_model = len(Wq)
    Q, K, V = (np.einsum("nm,mhd->hnd", X, W.reshape(d_model, n_heads, -1)) for W in (Wq, Wk, Wv))
    scores = np.einsum("hic,hjc->hij", Q, K) * Q.shape[-1] ** -0.5
    terms = np.exp(scores - scores.max(-1)[..., None])
    weights = np.einsum("hij,hi->hij", terms, 1 / terms.sum(-1))
    return np.einsum("hij,hjc,hcm->im", weights, V, Wo.reshape(n_heads, -1, Wo.shape[1]))
