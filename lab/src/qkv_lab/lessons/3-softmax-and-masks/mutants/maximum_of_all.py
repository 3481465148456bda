"""the maximum of the whole table subtracted

A row that lies far below the largest score of the table loses all its terms: each becomes 0, and 0/0 is NaN.
Subtract the maximum of each row.
"""

import numpy as np


def softmax(scores):
    terms = np.exp(scores - scores.max())
    return terms / terms.sum(axis=-1, keepdims=True)
