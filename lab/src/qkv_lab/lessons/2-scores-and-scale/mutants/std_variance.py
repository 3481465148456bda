"""the variance, not its root

scale² · d_k is the variance of the scaled score. Its standard deviation is the root of that.
"""


def score_std(d_k, scale):
    return scale**2 * d_k
