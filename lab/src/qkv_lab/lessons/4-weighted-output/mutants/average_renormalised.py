"""weights divided by their sum again

Take them as they are. A row may sum to less than 1, where a sink took a share, and a row of zeros would become 0/0,
which is NaN.
"""


def average(weights, V):
    return weights / weights.sum(axis=-1, keepdims=True) @ V
