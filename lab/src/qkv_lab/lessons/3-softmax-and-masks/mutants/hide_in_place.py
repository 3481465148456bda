"""the caller's scores overwritten by hide

`scores[~visible] = -np.inf` writes into the array that the caller handed over. Work on a copy, or let np.where make
one.
"""

import numpy as np


def hide(scores, visible):
    scores[~visible] = -np.inf
    return scores
