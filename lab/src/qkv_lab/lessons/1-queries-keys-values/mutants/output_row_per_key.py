"""a row for each key

Each query gets one answer, however many keys it looks at. The keys are what is summed over, so n_k does not appear
in the shape.
"""


def output_shape(n_q, n_k, d_v):
    return (n_k, d_v)
