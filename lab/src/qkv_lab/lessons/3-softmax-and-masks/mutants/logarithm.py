"""the logarithm of the weights

score − log Σ exp is log-softmax. The weights are its exponential.
"""

import numpy as np


def softmax(scores):
    shifted = scores - scores.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
