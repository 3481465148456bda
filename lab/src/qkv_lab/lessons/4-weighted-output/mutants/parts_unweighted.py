"""values without their weights

A key brings its weight times its value. Without the weight every key brings all it has.
"""


def contributions(weights, V, i):
    return V.copy()
