"""assert instead of raise

An assert raises AssertionError, and python -O skips it altogether. It is for what can't happen; for wrong arguments
raise ValueError.
"""


def project_qkv(X, Wq, Wk, Wv):
    assert Wq.shape[0] == Wk.shape[0] == Wv.shape[0] == X.shape[1]
    assert Wq.shape[1] == Wk.shape[1]
    return X @ Wq, X @ Wk, X @ Wv
