"""pairs without their width

That is how many weights there are. Each takes d_k multiply-adds to make and d_v to use.
"""


def pair_cost(n_q, n_k, d_k, d_v):
    return n_q * n_k
