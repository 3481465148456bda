"""columns counted, not numbers

d_k + d_k + d_v columns, and each of them holds d_model numbers.
"""


def param_count(d_model, d_k, d_v):
    return 2 * d_k + d_v
