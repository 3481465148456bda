"""the shapes of the matrices, not of Q, K and V

(d_model, d_k) is the shape of Wq. Q = X @ Wq has a row for each token: the inner size d_model is
summed away.
"""


def qkv_shapes(n, d_model, d_k, d_v):
    return {"Q": (d_model, d_k), "K": (d_model, d_k), "V": (d_model, d_v)}
