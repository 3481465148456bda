"""all weight on the largest score

That is arg-max. Softmax is its soft version: a lead of 1 gives 2.7 times the weight, not all of it.
"""

import numpy as np


def softmax(scores):
    return np.eye(scores.shape[1])[scores.argmax(axis=-1)]
