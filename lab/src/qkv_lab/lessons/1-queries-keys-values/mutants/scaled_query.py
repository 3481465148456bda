"""Q already divided by √d_k

The scale belongs to the scores, and the next lesson adds it there. Divided here and there, it would act
twice.
"""


def project_qkv(X, Wq, Wk, Wv):
    for W in (Wq, Wk, Wv):
        if W.shape[0] != X.shape[1]:
            raise ValueError("a matrix doesn't fit X")
    if Wq.shape[1] != Wk.shape[1]:
        raise ValueError("Wq and Wk differ in width")
    return X @ Wq / Wq.shape[1] ** 0.5, X @ Wk, X @ Wv
