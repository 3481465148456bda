"""the share of a contribution, not the contribution

Each number was divided by the sum of its column. A contribution is weight times value, as it stands.
"""


def contributions(weights, V, i):
    parts = weights[i][:, None] * V
    return parts / parts.sum(axis=0)
