"""Wq and Wk of different widths let through

A query is dotted with every key, so both need the same number of columns. Without the check the
error appears later, far from its cause.
"""


def project_qkv(X, Wq, Wk, Wv):
    for W in (Wq, Wk, Wv):
        if W.shape[0] != X.shape[1]:
            raise ValueError("a matrix doesn't fit X")
    return X @ Wq, X @ Wk, X @ Wv
