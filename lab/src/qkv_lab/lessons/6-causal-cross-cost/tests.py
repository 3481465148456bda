"""Every call that a program is tried on: function, what is special about the case, arguments."""

import numpy as np


def cases(rng):
    def array(*shape):
        return rng.normal(size=shape)

    def inputs(n_q, n_k, d_k, d_v, size=1.0):
        return size * array(n_q, d_k), size * array(n_k, d_k), array(n_k, d_v)

    def crossing(n_q, n_k, d_model, d_memory, d_k, d_v):
        matrices = array(d_model, d_k) / d_model**0.5, array(d_memory, d_k) / d_memory**0.5, array(d_memory, d_v)
        return array(n_q, d_model), array(n_k, d_memory), *matrices

    less, more = sorted(int(each) for each in rng.permutation([3, 4, 6, 7])[:2])
    yield "causal", "as many keys as queries", (5, 5)
    yield "causal", "more keys than queries", (less, more)
    yield "causal", "fewer keys than queries", (more, less)
    yield "causal", "one query, all keys kept", (1, 6)
    yield "causal", "one token", (1, 1)

    yield "causal_attention", "as many keys as queries", inputs(5, 5, 3, 2)
    yield "causal_attention", "more keys than queries", inputs(less, more, 5, 2)
    yield "causal_attention", "fewer keys than queries", inputs(more, less, 2, 5)
    yield "causal_attention", "scores in the thousands", inputs(4, 4, 3, 6, 40)

    yield "cross_attention", "other widths and lengths", crossing(3, 5, 4, 6, 2, 7)
    yield "cross_attention", "more queries than keys", crossing(6, 2, 5, 3, 4, 3)
    yield "cross_attention", "the same widths", crossing(3, 6, 5, 5, 4, 2)
    yield "cross_attention", "the same widths and lengths", crossing(4, 4, 5, 5, 3, 3)

    for label in ("four sizes", "four other sizes"):
        n_q, n_k, d_k, d_v = (int(each) for each in rng.permutation(np.arange(2, 40))[:4])
        yield "pair_cost", label, (n_q, n_k, d_k, d_v)
        yield "map_bytes", label, (n_q, n_k, d_k, d_v)
    yield "pair_cost", "a picture of 196 patches", (196, 196, 768, 768)
    yield "map_bytes", "twelve heads, 4 bytes a weight", (196, 196, 12, 4)
