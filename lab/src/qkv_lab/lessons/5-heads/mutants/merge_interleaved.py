"""the channels of the heads mixed

The heads lie side by side: all of head 0, then all of head 1. Here the first channel of each head comes first, and
W_O would meet them in the wrong order.
"""


def merge_heads(heads):
    return heads.transpose(1, 2, 0).reshape(heads.shape[1], -1)
