"""the best key alone

That is arg-max: all weight on the largest score. Softmax lets the others have their shares.
"""

import numpy as np


def attention(Q, K, V, visible):
    scores = np.where(visible, Q @ K.T / np.sqrt(Q.shape[1]), -np.inf)
    weights = np.eye(len(K))[scores.argmax(axis=-1)] * visible
    return weights @ V
