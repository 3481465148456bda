"""the shape of the weights

(n_q, n_k) is the map: a weight for each query and key. The output is that map times V, a row of width d_v for each
query.
"""


def output_shape(n_q, n_k, d_v):
    return (n_q, n_k)
