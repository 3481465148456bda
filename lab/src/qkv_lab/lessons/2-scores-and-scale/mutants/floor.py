"""// instead of /

// rounds down to a whole number. Scores are real numbers, and their fractions decide between keys.
"""

import numpy as np


def scaled_scores(Q, K, temperature):
    return Q @ K.T // np.sqrt(Q.shape[1]) / temperature
