"""column i instead of row i

Row i of the weights is what query i takes from each key. Column i is what every query takes from key i: with as
many keys as queries it fits, and is something else.
"""


def contributions(weights, V, i):
    return weights[:, i][:, None] * V
