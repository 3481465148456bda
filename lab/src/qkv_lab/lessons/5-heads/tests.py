"""Every call that a program is tried on: function, what is special about the case, arguments."""

import numpy as np


def cases(rng):
    def array(*shape):
        return rng.normal(size=shape)

    def layer(n, d_model, n_heads, d_k, d_v, size=1.0):
        # Of a size at which scores are of order one, times `size`.
        x, spread = array(n, d_model), size / np.sqrt(d_model)
        q, k, v = (spread * array(d_model, n_heads * d) for d in (d_k, d_k, d_v))
        return x, q, k, v, array(n_heads * d_v, d_model), n_heads

    def heads():
        return int(rng.integers(3, 6))

    n_heads = heads()
    yield "split_heads", f"{n_heads} heads", (array(7, 2 * n_heads), n_heads)
    yield "split_heads", "as many tokens as heads", (array(4, 12), 4)
    yield "split_heads", "one head", (array(3, 5), 1)
    yield "split_heads", "tokens that the heads divide", (array(6, 15), 3)
    yield "split_heads", "a width that the heads don't divide", (array(6, 14), 3)

    n_heads = heads()
    yield "merge_heads", f"{n_heads} heads", (array(n_heads, 7, 2),)
    yield "merge_heads", "as many tokens as heads", (array(4, 4, 3),)
    yield "merge_heads", "one head", (array(1, 3, 5),)
    yield "merge_heads", "as many tokens as channels", (array(3, 4, 4),)

    yield "repeat_kv", "6 query heads, 2 key heads", (array(2, 3, 4), 6)
    yield "repeat_kv", "9 query heads, 3 key heads", (array(3, 5, 2), 9)
    yield "repeat_kv", "a key head for each", (array(3, 2, 5), 3)
    yield "repeat_kv", "one key head for all", (array(1, 3, 2), 4)
    yield "repeat_kv", "heads that can't share equally", (array(3, 4, 2), 7)

    n_heads = heads()
    yield "multi_head", f"{n_heads} heads, square matrices", layer(5, 4 * n_heads, n_heads, 4, 4)
    yield "multi_head", "values narrower than keys", layer(6, 7, 4, 3, 2)
    yield "multi_head", "values wider than keys", layer(4, 6, 3, 2, 5)
    yield "multi_head", "one head", layer(5, 4, 1, 3, 6)
    yield "multi_head", "scores in the thousands", layer(5, 12, 3, 4, 4, 30)
