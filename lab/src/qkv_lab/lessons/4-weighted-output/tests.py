"""Every call that a program is tried on: function, what is special about the case, arguments."""

import numpy as np


def cases(rng):
    def shares(n_q, n_k):
        terms = np.exp(rng.normal(size=(n_q, n_k)))
        return terms / terms.sum(axis=-1, keepdims=True)

    def sizes(count):
        # Different from each other, so that no two can stand for one another.
        return (int(each) for each in rng.permutation([2, 3, 5, 6, 7])[:count])

    def inputs(n_q, n_k, d_k, d_v):
        return tuple(rng.normal(size=shape) for shape in ((n_q, d_k), (n_k, d_k), (n_k, d_v)))

    def mask(n_q, n_k):
        # Random, but every query sees a key and misses one.
        visible = rng.random((n_q, n_k)) < 0.6
        columns = rng.permuted(np.tile(np.arange(n_k), (n_q, 1)), axis=1)
        visible[np.arange(n_q), columns[:, 0]], visible[np.arange(n_q), columns[:, 1]] = True, False
        return visible

    n_q, n_k, d_v = sizes(3)
    weights, values = shares(n_q, n_k), rng.normal(size=(n_k, d_v))
    yield "average", "fewer or more keys than queries", (weights, values)
    yield "average", "as many keys as queries", (shares(4, 4), rng.normal(size=(4, 3)))
    less = shares(n_q, n_k) * rng.uniform(0.3, 0.9, size=(n_q, 1))
    yield "average", "rows that sum to less than 1", (less, values)
    yield "average", "a row of zeros", (np.where(np.arange(n_q)[:, None] == 0, 0.0, weights), values)
    i = int(rng.integers(n_q))
    yield "contributions", f"query {i}", (weights, values, i)
    yield "contributions", "as many keys as queries", (shares(4, 4), rng.normal(size=(4, 3)), 2)
    yield "contributions", "rows that sum to less than 1", (less, values, 0)
    for label in ("all keys visible", "other sizes"):
        n_q, n_k, d_k, d_v = sizes(4)
        yield "attention", label, (*inputs(n_q, n_k, d_k, d_v), np.ones((n_q, n_k), bool))
    yield "attention", "some keys hidden", (*inputs(3, 5, 6, 2), mask(3, 5))
    yield "attention", "as many keys as queries", (*inputs(4, 4, 3, 5), mask(4, 4))
    visible = mask(3, 6)
    visible[rng.integers(3)] = False
    yield "attention", "a query that sees no key", (*inputs(3, 6, 5, 2), visible)
    q, k, v = inputs(3, 5, 2, 4)
    yield "attention", "scores in the thousands", (40 * q, 40 * k, v, mask(3, 5))
