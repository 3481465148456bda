"""K made with Wq

Each of the three has a matrix of its own. With the same matrix for queries and keys the scores turn symmetric, and
a token can no longer look for something that it is not.
"""


def project_qkv(X, Wq, Wk, Wv):
    for W in (Wq, Wk, Wv):
        if W.shape[0] != X.shape[1]:
            raise ValueError("a matrix doesn't fit X")
    if Wq.shape[1] != Wk.shape[1]:
        raise ValueError("Wq and Wk differ in width")
    return X @ Wq, X @ Wq, X @ Wv
