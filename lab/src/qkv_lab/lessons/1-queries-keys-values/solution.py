def project_qkv(X, Wq, Wk, Wv):
    for name, W in (("Wq", Wq), ("Wk", Wk), ("Wv", Wv)):
        if W.shape[0] != X.shape[1]:
            raise ValueError(f"{name} has {W.shape[0]} rows, but X has width {X.shape[1]}")
    if Wq.shape[1] != Wk.shape[1]:
        raise ValueError(f"Wq has {Wq.shape[1]} columns, but Wk has {Wk.shape[1]}")
    return X @ Wq, X @ Wk, X @ Wv


def qkv_shapes(n, d_model, d_k, d_v):
    return {"Q": (n, d_k), "K": (n, d_k), "V": (n, d_v)}


def output_shape(n_q, n_k, d_v):
    return (n_q, d_v)


def param_count(d_model, d_k, d_v):
    return d_model * (d_k + d_k + d_v)
