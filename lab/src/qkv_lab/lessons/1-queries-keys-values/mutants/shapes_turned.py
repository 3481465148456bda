"""rows and columns exchanged

Each token is a row, so a shape begins with the number of tokens: (n, d_k), not (d_k, n).
"""


def qkv_shapes(n, d_model, d_k, d_v):
    return {"Q": (d_k, n), "K": (d_k, n), "V": (d_v, n)}
