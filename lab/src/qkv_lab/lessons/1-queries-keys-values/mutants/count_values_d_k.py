"""Wv counted as wide as Wk

Wv has d_v columns. Three times d_model · d_k is right only where d_v = d_k.
"""


def param_count(d_model, d_k, d_v):
    return 3 * d_model * d_k
