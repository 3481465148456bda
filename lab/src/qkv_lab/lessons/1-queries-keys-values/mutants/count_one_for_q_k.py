"""one matrix counted for queries and keys

Wq and Wk have the same shape and are two matrices. Both are learned, so both count.
"""


def param_count(d_model, d_k, d_v):
    return d_model * (d_k + d_v)
