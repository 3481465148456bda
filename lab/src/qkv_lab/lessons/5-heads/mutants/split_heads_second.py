"""the heads behind the tokens

The shape (n, n_heads, d) is half of the way. With the tokens in front, @ would let heads attend to heads within a
token: bring the heads to the front.
"""


def split_heads(X, n_heads):
    n, width = X.shape
    if width % n_heads:
        raise ValueError("the heads don't divide the width")
    return X.reshape(n, n_heads, width // n_heads)
