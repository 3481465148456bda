"""one head counted

Each head has a map of its own.
"""


def map_bytes(n_q, n_k, n_heads, bytes_each):
    return n_q * n_k * bytes_each
