"""weights counted, not bytes

Each weight takes bytes_each bytes: 4 in 32-bit numbers.
"""


def map_bytes(n_q, n_k, n_heads, bytes_each):
    return n_heads * n_q * n_k
