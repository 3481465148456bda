"""the mask after the softmax

The hidden keys took their share before they were removed: the rows no longer sum to 1, and by how much depends on
scores that should not count. Hide before the softmax.
"""

import numpy as np


def masked_softmax(scores, visible):
    terms = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = terms / terms.sum(axis=-1, keepdims=True)
    return weights * visible
