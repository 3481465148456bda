"""powers of 2 instead of e

Softmax takes powers of e. Powers of 2 are the same as e with all scores multiplied by 0.693, a temperature of 1.44.
"""


def softmax(scores):
    terms = 2.0 ** (scores - scores.max(axis=-1, keepdims=True))
    return terms / terms.sum(axis=-1, keepdims=True)
