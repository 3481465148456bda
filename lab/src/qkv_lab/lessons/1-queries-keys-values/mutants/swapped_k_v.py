"""K and V swapped

The function returns Q, K, V in this order. Here the values would be compared with the queries, and the keys
averaged.
"""


def project_qkv(X, Wq, Wk, Wv):
    for W in (Wq, Wk, Wv):
        if W.shape[0] != X.shape[1]:
            raise ValueError("a matrix doesn't fit X")
    if Wq.shape[1] != Wk.shape[1]:
        raise ValueError("Wq and Wk differ in width")
    return X @ Wq, X @ Wv, X @ Wk
