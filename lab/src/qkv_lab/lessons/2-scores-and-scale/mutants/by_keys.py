"""the number of keys under the root

n_k says how many scores a row has. How far each spreads depends on the width d_k, over which the dot product sums.
"""

import numpy as np


def scaled_scores(Q, K, temperature):
    return Q @ K.T / np.sqrt(K.shape[0]) / temperature
