"""multiplications and additions counted apart

A multiply-add is both at once. Counted apart, in FLOPs, it is twice as many.
"""


def pair_cost(n_q, n_k, d_k, d_v):
    return 2 * n_q * n_k * (d_k + d_v)
