"""None instead of an error

A function that returns None where the shapes don't fit lets its caller go on with nothing. `raise ValueError(…)`
stops at once and says why.
"""


def project_qkv(X, Wq, Wk, Wv):
    for W in (Wq, Wk, Wv):
        if W.shape[0] != X.shape[1]:
            return None
    if Wq.shape[1] != Wk.shape[1]:
        return None
    return X @ Wq, X @ Wk, X @ Wv
