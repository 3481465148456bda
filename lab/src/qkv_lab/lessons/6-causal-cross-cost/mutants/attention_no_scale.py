"""no 1/√d_k

The scores are not divided by √d_k.
"""

import numpy as np


def causal_attention(Q, K, V):
    scores = np.where(causal(len(Q), len(K)), Q @ K.T, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    terms = np.exp(scores - np.where(top == -np.inf, 0, top))
    total = terms.sum(axis=-1, keepdims=True)
    weights = terms / np.where(total == 0, 1, total)
    return weights @ V
