"""n_q + n_k instead of n_q · n_k

That is how many queries and keys there are. The map has a weight for each pair of them.
"""


def map_bytes(n_q, n_k, n_heads, bytes_each):
    return n_heads * (n_q + n_k) * bytes_each
