"""n_q² instead of n_q · n_k

A pair is a query and a key. With n_q² the two numbers would have to be equal.
"""


def pair_cost(n_q, n_k, d_k, d_v):
    return n_q**2 * (d_k + d_v)
