"""V as wide as a key

The value of a token is d_v wide. Many models choose d_v = d_k, and so the two are easily taken for one.
"""


def qkv_shapes(n, d_model, d_k, d_v):
    return {"Q": (n, d_k), "K": (n, d_k), "V": (n, d_k)}
