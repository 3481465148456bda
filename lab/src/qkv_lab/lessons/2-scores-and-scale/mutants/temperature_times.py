"""multiplied by the temperature

A temperature divides: below 1 the scores move apart and the largest wins, above 1 they move together.
"""

import numpy as np


def scaled_scores(Q, K, temperature):
    return Q @ K.T / np.sqrt(Q.shape[1]) * temperature
