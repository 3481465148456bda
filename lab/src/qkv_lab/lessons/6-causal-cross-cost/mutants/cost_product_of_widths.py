"""d_k · d_v instead of d_k + d_v

The two products of matrices follow each other, so their costs add.
"""


def pair_cost(n_q, n_k, d_k, d_v):
    return n_q * n_k * d_k * d_v
