"""−10 000 added to hidden scores

A hidden key still has its score, 10 000 lower. Beside scores that low, or in a row where all is hidden, it is back.
Put −∞ in its place.
"""

import numpy as np


def hide(scores, visible):
    return scores + np.where(visible, 0.0, -1e4)
