"""no mask

Each token sees the future too, and a model that is trained so only learns to copy.
"""

import numpy as np


def causal_attention(Q, K, V):
    scores = Q @ K.T / np.sqrt(Q.shape[1])
    top = scores.max(axis=-1, keepdims=True)
    terms = np.exp(scores - np.where(top == -np.inf, 0, top))
    total = terms.sum(axis=-1, keepdims=True)
    weights = terms / np.where(total == 0, 1, total)
    return weights @ V
