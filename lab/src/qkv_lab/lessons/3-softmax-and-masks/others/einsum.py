import numpy as np


def softmax(scores):
    terms = np.exp(scores - np.max(scores, axis=1)[:, None])
    return np.einsum("ij,i->ij", terms, 1 / np.einsum("ij->i", terms))


def hide(scores, visible):
    hidden = np.array(scores)
    hidden[~visible] = -np.inf
    return hidden


def masked_softmax(scores, visible):
    # An empty row is NaN after the softmax, and nothing else is.
    return np.nan_to_num(softmax(hide(scores, visible)), nan=0.0)
