"""the mask the wrong way round

True means that a query may see the key. Here everything visible is hidden, and everything hidden shown.
"""

import numpy as np


def hide(scores, visible):
    return np.where(visible, -np.inf, scores)
