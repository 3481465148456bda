"""one projection for all three

Query, key and value are the same vector here, all made with Wq. The point of three matrices is that a token can
look for one thing, be found by another and give a third.
"""


def project_qkv(X, Wq, Wk, Wv):
    for W in (Wq, Wk, Wv):
        if W.shape[0] != X.shape[1]:
            raise ValueError("a matrix doesn't fit X")
    if Wq.shape[1] != Wk.shape[1]:
        raise ValueError("Wq and Wk differ in width")
    return X @ Wq, X @ Wq, X @ Wq
