"""Every call that a program is tried on: function, what is special about the case, arguments."""

import numpy as np


def cases(rng):
    def scores(n_q, n_k):
        return rng.normal(size=(n_q, n_k))

    def mask(n_q, n_k):
        # Random, but every query sees a key and misses one.
        visible = rng.random((n_q, n_k)) < 0.6
        columns = rng.permuted(np.tile(np.arange(n_k), (n_q, 1)), axis=1)
        visible[np.arange(n_q), columns[:, 0]], visible[np.arange(n_q), columns[:, 1]] = True, False
        return visible

    wide, tall = scores(3, 5), scores(6, 4)
    yield "softmax", "more keys than queries", (wide,)
    yield "softmax", "fewer keys than queries", (tall,)
    yield "softmax", "one key", (scores(3, 1),)
    yield "softmax", "scores around 1000", (1000 + scores(2, 4),)
    yield "softmax", "scores around -1000", (-1000 + scores(2, 4),)
    yield "softmax", "a row around 1000 and a row around -1000", (scores(2, 4) + np.array([[1000], [-1000]]),)
    yield "softmax", "1000 and -1000 in one row", (scores(2, 4) + np.array([1000, -1000, 0, 1000]),)

    yield "hide", "some keys hidden", (wide, mask(3, 5))
    yield "hide", "nothing hidden", (tall, np.ones((6, 4), bool))
    empty = mask(3, 5)
    empty[rng.integers(3)] = False
    yield "hide", "a row with all keys hidden", (scores(3, 5), empty)

    yield "masked_softmax", "some keys hidden", (wide, mask(3, 5))
    yield "masked_softmax", "other keys hidden", (tall, mask(6, 4))
    yield "masked_softmax", "nothing hidden", (scores(2, 3), np.ones((2, 3), bool))
    yield "masked_softmax", "a row with all keys hidden", (scores(3, 5), empty)
    visible = mask(4, 5)
    yield "masked_softmax", "a hidden key has a score of 1000", (np.where(visible, scores(4, 5), 1000.0), visible)
    yield "masked_softmax", "visible scores around 1000", (1000 + scores(4, 5), visible)
    yield "masked_softmax", "visible scores below -10 000", (scores(4, 5) - 20_000 * visible, visible)
