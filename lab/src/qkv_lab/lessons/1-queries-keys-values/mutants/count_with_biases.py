"""biases counted

A bias would add one number for each column. These projections have none, and neither has the paper's formula.
"""


def param_count(d_model, d_k, d_v):
    return (d_model + 1) * (2 * d_k + d_v)
