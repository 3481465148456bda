"""the scale under the root

The scale multiplies every score, and so the standard deviation as it is. Under the root it would have to stand
squared: √(scale² · d_k).
"""

import numpy as np


def score_std(d_k, scale):
    return np.sqrt(scale * d_k)
