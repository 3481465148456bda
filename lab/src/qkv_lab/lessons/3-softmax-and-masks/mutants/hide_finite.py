"""−10 000 in place of −∞

Scores below −10 000 exist, and beside them the hidden key wins. In a row where all is hidden, all keys are suddenly
equal. Only −∞ is low enough.
"""

import numpy as np


def hide(scores, visible):
    return np.where(visible, scores, -1e4)
