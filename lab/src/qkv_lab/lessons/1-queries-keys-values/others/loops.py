import numpy as np


def product(A, B):
    out = np.zeros((A.shape[0], B.shape[1]))
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            for c in range(A.shape[1]):
                out[i, j] += A[i, c] * B[c, j]
    return out


def project_qkv(X, Wq, Wk, Wv):
    n, d_model = X.shape
    for W in [Wq, Wk, Wv]:
        rows, columns = W.shape
        if rows != d_model:
            raise ValueError("a matrix doesn't fit X")
    if Wq.shape[1] != Wk.shape[1]:
        raise ValueError("queries and keys differ in width")
    return [product(X, Wq), product(X, Wk), product(X, Wv)]


def qkv_shapes(n, d_model, d_k, d_v):
    shapes = {}
    for letter, width in zip("QKV", [d_k, d_k, d_v]):
        shapes[letter] = [n, width]
    return shapes


def output_shape(n_q, n_k, d_v):
    return [n_q, d_v]


def param_count(d_model, d_k, d_v):
    count = 0
    for width in (d_k, d_k, d_v):
        for _ in range(d_model):
            count += width
    return count
