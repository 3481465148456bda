"""the plain mean of the values

Every key counts alike here, and the weights count for nothing. Multiply each value by its weight before adding up.
"""

import numpy as np


def average(weights, V):
    return np.tile(V.mean(axis=0), (len(weights), 1))
