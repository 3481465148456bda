"""the caller's scores overwritten by softmax

`scores -= …` writes into the array that the caller handed over, and who looks at the scores afterwards finds
others. `scores - …` makes a new one.
"""

import numpy as np


def softmax(scores):
    scores -= scores.max(axis=-1, keepdims=True)
    terms = np.exp(scores)
    return terms / terms.sum(axis=-1, keepdims=True)
