import numpy as np


def split_heads(X, n_heads):
    pass


def merge_heads(heads):
    pass


def repeat_kv(K, n_heads):
    pass


def multi_head(X, Wq, Wk, Wv, Wo, n_heads):
    pass
