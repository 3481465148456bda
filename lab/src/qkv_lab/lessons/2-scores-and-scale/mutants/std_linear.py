"""growing like d_k, not √d_k

If all terms had the same sign, the sum would grow like d_k. Independent terms partly cancel: their variances add,
and the spread grows like the root.
"""


def score_std(d_k, scale):
    return scale * d_k
