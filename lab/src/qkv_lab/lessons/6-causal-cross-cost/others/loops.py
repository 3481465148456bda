import math

import numpy as np


def causal(n_q, n_k):
    visible = np.zeros((n_q, n_k), dtype=bool)
    for i in range(n_q):
        for j in range(n_k):
            hidden_behind = n_q - 1 - i
            visible[i, j] = j < n_k - hidden_behind
    return visible


def row(q, K, V):
    output, total = np.zeros(V.shape[1]), 0.0
    scores = [float(q @ k) / math.sqrt(len(q)) for k in K]
    for score, v in zip(scores, V):
        term = math.exp(score - max(scores))
        output, total = output + term * v, total + term
    return output / total if total else output


def causal_attention(Q, K, V):
    out = []
    for i in range(len(Q)):
        seen = max(len(K) - (len(Q) - 1 - i), 0)
        out.append(row(Q[i], K[:seen], V[:seen]))
    return np.array(out)


def cross_attention(X, memory, Wq, Wk, Wv):
    return np.array([row(x @ Wq, memory @ Wk, memory @ Wv) for x in X])


def pair_cost(n_q, n_k, d_k, d_v):
    count = 0
    for _ in range(n_q):
        count += n_k * d_k
        count += n_k * d_v
    return count


def map_bytes(n_q, n_k, n_heads, bytes_each):
    total = 0
    for _ in range(n_heads):
        total += n_q * n_k * bytes_each
    return total
