"""no maximum subtracted

exp of a score in the thousands is inf, and inf/inf is NaN. Subtract the largest visible score of the row first.
"""

import numpy as np


def attention(Q, K, V, visible):
    scores = np.where(visible, Q @ K.T / np.sqrt(Q.shape[1]), -np.inf)
    terms = np.exp(scores)
    total = terms.sum(axis=-1, keepdims=True)
    weights = terms / np.where(total == 0, 1, total)
    return weights @ V
