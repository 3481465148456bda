"""X and memory exchanged

The queries come from X, keys and values from the memory. Here the memory asks and X answers.
"""


def cross_attention(X, memory, Wq, Wk, Wv):
    return attention(memory @ Wq, X @ Wk, X @ Wv, visible=True)
