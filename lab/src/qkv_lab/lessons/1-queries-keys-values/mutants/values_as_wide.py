"""V held to the width of the keys

Values are averaged and never dotted with a query or a key. Their width d_v is free, and must not be
refused.
"""


def project_qkv(X, Wq, Wk, Wv):
    for W in (Wq, Wk, Wv):
        if W.shape[0] != X.shape[1]:
            raise ValueError("a matrix doesn't fit X")
    if Wq.shape[1] != Wk.shape[1]:
        raise ValueError("Wq and Wk differ in width")
    if Wv.shape[1] != Wk.shape[1]:
        raise ValueError("Wv is of another width")
    return X @ Wq, X @ Wk, X @ Wv
