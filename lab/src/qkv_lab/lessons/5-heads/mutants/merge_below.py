"""the heads below each other

Side by side, not below each other: a row stays a token, and becomes n_heads times as wide.
"""


def merge_heads(heads):
    return heads.reshape(-1, heads.shape[2])
