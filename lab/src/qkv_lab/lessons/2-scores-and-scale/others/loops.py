import math

import numpy as np


def dot_scores(Q, K):
    scores = np.zeros((len(Q), len(K)))
    for i, q in enumerate(Q):
        for j, k in enumerate(K):
            total = 0
            for a, b in zip(q, k):
                total += a * b
            scores[i, j] = total
    return scores


def scaled_scores(Q, K, temperature):
    scores = dot_scores(Q, K)
    for i in range(scores.shape[0]):
        for j in range(scores.shape[1]):
            scores[i, j] /= temperature * math.sqrt(len(K[0]))
    return scores


def score_std(d_k, scale):
    variance = 0
    for _ in range(d_k):
        variance += scale**2
    return math.sqrt(variance)
