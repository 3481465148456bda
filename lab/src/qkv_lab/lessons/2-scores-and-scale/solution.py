import numpy as np


def dot_scores(Q, K):
    return Q @ K.T


def scaled_scores(Q, K, temperature):
    d_k = Q.shape[1]
    return dot_scores(Q, K) / np.sqrt(d_k) / temperature


def score_std(d_k, scale):
    return scale * np.sqrt(d_k)
