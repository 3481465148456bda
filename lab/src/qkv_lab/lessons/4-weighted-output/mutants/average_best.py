"""the value of the largest weight alone

That is arg-max: all but one key are left out. Each key brings its share.
"""


def average(weights, V):
    return V[weights.argmax(axis=-1)]
