from math import exp, sqrt


def product(A, B):
    return [[sum(a * b for a, b in zip(row, column)) for column in zip(*B)] for row in A]


def cut(rows, n_heads):
    d = len(rows[0]) // n_heads
    return [[row[h * d : (h + 1) * d] for row in rows] for h in range(n_heads)]


def side_by_side(heads):
    return [[number for part in parts for number in part] for parts in zip(*heads)]


def softmax(row):
    terms = [exp(score - max(row)) for score in row]
    return [term / sum(terms) for term in terms]


def split_heads(X, n_heads):
    if X.shape[1] % n_heads > 0:
        raise ValueError("the heads don't divide the width")
    return cut(X.tolist(), n_heads)


def merge_heads(heads):
    return side_by_side(heads.tolist())


def repeat_kv(K, n_heads):
    heads = K.tolist()
    if n_heads % len(heads) > 0:
        raise ValueError("the heads can't share equally")
    return [head for head in heads for _ in range(n_heads // len(heads))]


def multi_head(X, Wq, Wk, Wv, Wo, n_heads):
    X = X.tolist()
    Q, K, V = (cut(product(X, W.tolist()), n_heads) for W in (Wq, Wk, Wv))
    outputs = []
    for q, k, v in zip(Q, K, V):
        scores = [[score / sqrt(len(q[0])) for score in row] for row in product(q, list(zip(*k)))]
        outputs.append(product([softmax(row) for row in scores], v))
    return product(side_by_side(outputs), Wo.tolist())
