"""× √d_k, not ÷ √d_k

The scale is there to make wide scores smaller. Multiplied, they grow twice over.
"""

import numpy as np


def scaled_scores(Q, K, temperature):
    return Q @ K.T * np.sqrt(Q.shape[1]) / temperature
