import numpy as np


def causal(n_q, n_k):
    return np.tri(n_q, n_k, n_k - n_q, dtype=bool)


def shares(scores):
    terms = np.exp(scores - np.maximum(scores.max(axis=-1), -1e300)[:, None])
    return np.einsum("ij,i->ij", terms, 1 / np.maximum(np.einsum("ij->i", terms), 1e-300))


def causal_attention(Q, K, V):
    scores = np.einsum("ic,jc->ij", Q, K) / np.sqrt(K.shape[1])
    scores[~causal(*scores.shape)] = -np.inf
    return np.einsum("ij,jc->ic", shares(scores), V)


def cross_attention(X, memory, Wq, Wk, Wv):
    scores = np.einsum("im,mc,jn,nc->ij", X, Wq, memory, Wk) / np.sqrt(Wk.shape[1])
    return np.einsum("ij,jn,nc->ic", shares(scores), memory, Wv)


def pair_cost(n_q, n_k, d_k, d_v):
    return n_q * d_k * n_k + n_q * n_k * d_v


def map_bytes(n_q, n_k, n_heads, bytes_each):
    return int(np.prod([n_heads, n_q, n_k])) * bytes_each
