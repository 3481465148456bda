from math import exp, sqrt


def causal(n_q, n_k):
    return [[j - n_k <= i - n_q for j in range(n_k)] for i in range(n_q)]


def product(A, B):
    return [[sum(a * b for a, b in zip(row, column)) for column in zip(*B)] for row in A]


def attention(Q, K, V, visible):
    output = []
    for q, sees in zip(Q, visible):
        seen = [(sum(a * b for a, b in zip(q, k)) / sqrt(len(q)), v) for k, v, s in zip(K, V, sees) if s]
        top = max((score for score, _ in seen), default=0)
        terms = [exp(score - top) for score, _ in seen]
        output.append([sum(t * v[c] for t, (_, v) in zip(terms, seen)) / (sum(terms) or 1) for c in range(len(V[0]))])
    return output


def causal_attention(Q, K, V):
    return attention(Q.tolist(), K.tolist(), V.tolist(), causal(len(Q), len(K)))


def cross_attention(X, memory, Wq, Wk, Wv):
    Q = product(X.tolist(), Wq.tolist())
    K, V = (product(memory.tolist(), W.tolist()) for W in (Wk, Wv))
    return attention(Q, K, V, [[True] * len(K)] * len(Q))


def pair_cost(n_q, n_k, d_k, d_v):
    return sum(n_k * d for d in [d_k, d_v] for _ in range(n_q))


def map_bytes(n_q, n_k, n_heads, bytes_each):
    return bytes_each * n_k * n_q * n_heads
