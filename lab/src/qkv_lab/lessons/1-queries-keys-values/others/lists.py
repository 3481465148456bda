def times(rows, matrix):
    columns = list(zip(*matrix))
    return [[sum(a * b for a, b in zip(row, column)) for column in columns] for row in rows]


def project_qkv(X, Wq, Wk, Wv):
    X, Wq, Wk, Wv = X.tolist(), Wq.tolist(), Wk.tolist(), Wv.tolist()
    d_model = len(X[0])
    if any(len(W) != d_model for W in (Wq, Wk, Wv)) or len(Wq[0]) != len(Wk[0]):
        raise ValueError("the shapes don't fit")
    return times(X, Wq), times(X, Wk), times(X, Wv)


def qkv_shapes(n, d_model, d_k, d_v):
    return dict(Q=(n, d_k), K=(n, d_k), V=(n, d_v))


def output_shape(n_q, n_k, d_v):
    return n_q, d_v


def param_count(d_model, d_k, d_v):
    return 2 * d_model * d_k + d_model * d_v
