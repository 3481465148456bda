"""the number of queries under the root

Q.shape is (n_q, d_k), so the width is Q.shape[1]. Q.shape[0], or len(Q), is how many queries there are.
"""

import numpy as np


def scaled_scores(Q, K, temperature):
    return Q @ K.T / np.sqrt(Q.shape[0]) / temperature
