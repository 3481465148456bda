"""every n-th channel in a head

A head gets channels that lie side by side, because its columns of Wq do. Here head 0 has channels 0, h, 2h, …
"""


def split_heads(X, n_heads):
    n, width = X.shape
    if width % n_heads:
        raise ValueError("the heads don't divide the width")
    return X.reshape(n, width // n_heads, n_heads).transpose(2, 0, 1)
