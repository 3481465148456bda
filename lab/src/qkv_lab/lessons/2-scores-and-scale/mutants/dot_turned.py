"""K·Qᵀ instead of Q·Kᵀ

A row belongs to a query and a column to a key: Q @ K.T. K @ Q.T is the same table turned over, and the softmax
along its rows would share each key among the queries.
"""


def dot_scores(Q, K):
    return K @ Q.T
