from math import exp, inf


def row_weights(row):
    top = max(row)
    if top == -inf:
        return [0] * len(row)
    terms = [exp(score - top) for score in row]
    total = sum(terms)
    return [term / total for term in terms]


def softmax(scores):
    return [row_weights(row) for row in scores.tolist()]


def hide(scores, visible):
    return [[s if sees else -inf for s, sees in zip(*rows)] for rows in zip(scores.tolist(), visible.tolist())]


def masked_softmax(scores, visible):
    return [row_weights(row) for row in hide(scores, visible)]
