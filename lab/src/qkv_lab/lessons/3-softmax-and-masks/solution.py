import numpy as np


def softmax(scores):
    terms = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return terms / terms.sum(axis=-1, keepdims=True)


def hide(scores, visible):
    return np.where(visible, scores, -np.inf)


def masked_softmax(scores, visible):
    hidden = hide(scores, visible)
    top = hidden.max(axis=-1, keepdims=True)
    terms = np.exp(hidden - np.where(top == -np.inf, 0, top))
    total = terms.sum(axis=-1, keepdims=True)
    return terms / np.where(total == 0, 1, total)
