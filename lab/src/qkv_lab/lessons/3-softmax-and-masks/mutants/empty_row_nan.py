"""NaN in an empty row

If all keys are hidden, the largest score is −∞, and −∞ − (−∞) is NaN. Such a row is to be all zeros.
"""

import numpy as np


def masked_softmax(scores, visible):
    hidden = np.where(visible, scores, -np.inf)
    terms = np.exp(hidden - hidden.max(axis=-1, keepdims=True))
    return terms / terms.sum(axis=-1, keepdims=True)
