from math import exp, sqrt


def average(weights, V):
    columns = list(zip(*V.tolist()))
    return [[sum(w * v for w, v in zip(row, column)) for column in columns] for row in weights.tolist()]


def contributions(weights, V, i):
    return [[weight * number for number in value] for weight, value in zip(weights.tolist()[i], V.tolist())]


def attention(Q, K, V, visible):
    keys, values = K.tolist(), V.tolist()
    output = []
    for q, sees in zip(Q.tolist(), visible.tolist()):
        scores = [sum(a * b for a, b in zip(q, k)) / sqrt(len(q)) for k in keys]
        top = max([s for s, seen in zip(scores, sees) if seen], default=0)
        terms = [exp(s - top) if seen else 0 for s, seen in zip(scores, sees)]
        total = sum(terms) or 1
        output.append([sum(t * v for t, v in zip(terms, column)) / total for column in zip(*values)])
    return output
