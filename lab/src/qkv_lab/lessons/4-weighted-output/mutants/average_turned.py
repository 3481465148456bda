"""the output turned over

A row belongs to a query and a column to a channel: weights @ V, of shape (n_q, d_v). V.T @ weights.T has the same
numbers with rows and columns exchanged.
"""


def average(weights, V):
    return V.T @ weights.T
