import math

import numpy as np


def average(weights, V):
    out = np.zeros((weights.shape[0], V.shape[1]))
    for i in range(weights.shape[0]):
        for j in range(weights.shape[1]):
            for c in range(V.shape[1]):
                out[i, c] += weights[i, j] * V[j, c]
    return out


def contributions(weights, V, i):
    parts = np.zeros(V.shape)
    for j in range(len(V)):
        parts[j] = weights[i, j] * V[j]
    return parts


def attention(Q, K, V, visible):
    out = np.zeros((len(Q), V.shape[1]))
    for i in range(len(Q)):
        seen = [j for j in range(len(K)) if visible[i, j]]
        scores = {j: float(np.dot(Q[i], K[j])) / math.sqrt(Q.shape[1]) for j in seen}
        total = 0
        for j in seen:
            term = math.exp(scores[j] - max(scores.values()))
            total += term
            out[i] += term * V[j]
        if seen:
            out[i] /= total
    return out
