import numpy as np


def project_qkv(X, Wq, Wk, Wv):
    if {len(W) for W in (Wq, Wk, Wv)} != {X.shape[-1]} or Wq.shape != Wk.shape:
        raise ValueError(f"{X.shape} can't be projected by {Wq.shape}, {Wk.shape}, {Wv.shape}")
    return tuple(np.einsum("nm,md->nd", X, W) for W in (Wq, Wk, Wv))


def qkv_shapes(n, d_model, d_k, d_v):
    X = np.zeros((n, d_model))
    Q, K, V = project_qkv(X, np.zeros((d_model, d_k)), np.zeros((d_model, d_k)), np.zeros((d_model, d_v)))
    return {"V": V.shape, "K": K.shape, "Q": Q.shape}


def output_shape(n_q, n_k, d_v):
    return np.einsum("ij,jc->ic", np.zeros((n_q, n_k)), np.zeros((n_k, d_v))).shape


def param_count(d_model, d_k, d_v):
    return sum(np.zeros((d_model, d)).size for d in (d_k, d_k, d_v))
