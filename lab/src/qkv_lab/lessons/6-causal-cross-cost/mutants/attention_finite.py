"""−10 000 for hidden keys

A query that sees nothing then finds all keys equal, and gets the mean of values that it may not see. Only −∞ is low
enough.
"""

import numpy as np


def causal_attention(Q, K, V):
    scores = np.where(causal(len(Q), len(K)), Q @ K.T / np.sqrt(Q.shape[1]), -1e4)
    top = scores.max(axis=-1, keepdims=True)
    terms = np.exp(scores - np.where(top == -np.inf, 0, top))
    total = terms.sum(axis=-1, keepdims=True)
    weights = terms / np.where(total == 0, 1, total)
    return weights @ V
