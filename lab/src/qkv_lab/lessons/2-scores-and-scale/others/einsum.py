import numpy as np


def dot_scores(Q, K):
    return np.einsum("ic,jc->ij", Q, K)


def scaled_scores(Q, K, temperature):
    tau = temperature * K.shape[-1] ** 0.5
    return np.einsum("ic,jc->ij", Q / tau, K)


def score_std(d_k, scale):
    return np.linalg.norm(np.full(d_k, scale))
