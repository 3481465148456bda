import numpy as np


def causal(n_q, n_k):
    pass


def causal_attention(Q, K, V):
    pass


def cross_attention(X, memory, Wq, Wk, Wv):
    pass


def pair_cost(n_q, n_k, d_k, d_v):
    pass


def map_bytes(n_q, n_k, n_heads, bytes_each):
    pass
