"""the mask after the softmax, and divided again

On paper this is right. But a hidden score of 1000 leaves nothing for the others: all their terms round to 0, and
0/0 is NaN, or all zeros. Hide before the softmax.
"""

import numpy as np


def masked_softmax(scores, visible):
    terms = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = terms / terms.sum(axis=-1, keepdims=True)
    weights = weights * visible
    total = weights.sum(axis=-1, keepdims=True)
    return weights / np.where(total == 0, 1, total)
