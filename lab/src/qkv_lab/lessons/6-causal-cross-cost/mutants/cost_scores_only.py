"""only the scores counted

A · V touches every pair as well, with d_v multiply-adds for each.
"""


def pair_cost(n_q, n_k, d_k, d_v):
    return n_q * n_k * d_k
