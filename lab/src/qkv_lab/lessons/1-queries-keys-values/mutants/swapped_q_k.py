"""Q and K swapped

The function returns Q, K, V in this order. Swapped, every query becomes a key: what a token asks would be
matched as if it were what it offers.
"""


def project_qkv(X, Wq, Wk, Wv):
    for W in (Wq, Wk, Wv):
        if W.shape[0] != X.shape[1]:
            raise ValueError("a matrix doesn't fit X")
    if Wq.shape[1] != Wk.shape[1]:
        raise ValueError("Wq and Wk differ in width")
    return X @ Wk, X @ Wq, X @ Wv
