import numpy as np


def average(weights, V):
    return weights @ V


def contributions(weights, V, i):
    return weights[i][:, None] * V


def attention(Q, K, V, visible):
    scores = np.where(visible, Q @ K.T / np.sqrt(Q.shape[1]), -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    terms = np.exp(scores - np.where(top == -np.inf, 0, top))
    total = terms.sum(axis=-1, keepdims=True)
    return average(terms / np.where(total == 0, 1, total), V)
