"""n_q² instead of n_q · n_k

A map has a row for each query and a column for each key.
"""


def map_bytes(n_q, n_k, n_heads, bytes_each):
    return n_heads * n_q * n_q * bytes_each
