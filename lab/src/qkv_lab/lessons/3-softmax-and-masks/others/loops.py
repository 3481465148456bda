import math

import numpy as np


def softmax(scores):
    weights = np.empty(scores.shape)
    for i in range(scores.shape[0]):
        biggest = scores[i].max()
        total = 0
        for j in range(scores.shape[1]):
            weights[i, j] = math.exp(scores[i, j] - biggest)
            total += weights[i, j]
        for j in range(scores.shape[1]):
            weights[i, j] /= total
    return weights


def hide(scores, visible):
    result = scores.copy()
    for i in range(scores.shape[0]):
        for j in range(scores.shape[1]):
            if not visible[i, j]:
                result[i, j] = -math.inf
    return result


def masked_softmax(scores, visible):
    weights = np.zeros(scores.shape)
    for i in range(len(scores)):
        seen = [j for j in range(scores.shape[1]) if visible[i, j]]
        if seen:
            weights[i, seen] = softmax(scores[i : i + 1, seen])[0]
    return weights
