"""each head turned over

In a head a row is a token: (n_heads, n, d). Here a row is a channel.
"""


def split_heads(X, n_heads):
    n, width = X.shape
    if width % n_heads:
        raise ValueError("the heads don't divide the width")
    return X.reshape(n, n_heads, width // n_heads).transpose(1, 2, 0)
