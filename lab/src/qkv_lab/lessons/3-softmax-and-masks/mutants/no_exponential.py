"""shares of the scores, without the exponential

Scores can be negative, and then so are such shares; and adding 1 to all scores would change them. Take the
exponential first.
"""


def softmax(scores):
    return scores / scores.sum(axis=-1, keepdims=True)
