"""the temperature under the root

Only d_k stands under the root; the temperature divides as it is. √(d_k · τ) halves its effect on a logarithmic
scale.
"""

import numpy as np


def scaled_scores(Q, K, temperature):
    return Q @ K.T / np.sqrt(Q.shape[1] * temperature)
