"""a token that may not see itself

j < i leaves out the token's own key, and the first token then sees nothing at all. A token may see itself: j ≤ i.
"""

import numpy as np


def causal(n_q, n_k):
    return np.arange(n_k) < np.arange(n_q)[:, None] + n_k - n_q
