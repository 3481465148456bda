"""split by reshape, without a transpose

X.reshape(n_heads, n, d) fills the heads with the numbers as they lie: head 0 is made of the first tokens, cut to
pieces. First (n, n_heads, d), then bring the heads to the front.
"""


def split_heads(X, n_heads):
    n, width = X.shape
    if width % n_heads:
        raise ValueError("the heads don't divide the width")
    return X.reshape(n_heads, n, width // n_heads)
