"""tokens as columns

X holds one token a row, so it stands on the left: X @ W, of shape (n, d). W.T @ X.T holds the same numbers turned
over, one token a column.
"""


def project_qkv(X, Wq, Wk, Wv):
    for W in (Wq, Wk, Wv):
        if W.shape[0] != X.shape[1]:
            raise ValueError("a matrix doesn't fit X")
    if Wq.shape[1] != Wk.shape[1]:
        raise ValueError("Wq and Wk differ in width")
    return Wq.T @ X.T, Wk.T @ X.T, Wv.T @ X.T
