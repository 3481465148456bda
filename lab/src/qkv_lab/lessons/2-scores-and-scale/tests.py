"""Every call that a program is tried on: function, what is special about the case, arguments."""

import numpy as np


def cases(rng):
    def pair(n_q, n_k, d_k, size=1.0):
        return size * rng.normal(size=(n_q, d_k)), size * rng.normal(size=(n_k, d_k))

    def sizes():
        # Different from each other, so that no two can stand for one another; and not 4, whose root is its half.
        return (int(each) for each in rng.permutation([2, 3, 5, 6, 7])[:3])

    n_q, n_k, d_k = sizes()
    yield "dot_scores", "fewer or more keys than queries", pair(n_q, n_k, d_k)
    yield "dot_scores", "as many keys as queries", pair(3, 3, 5)
    yield "dot_scores", "one query", pair(1, n_k, d_k)
    yield "dot_scores", "whole numbers", tuple(rng.integers(-4, 5, size=(n, 3)) for n in (2, 4))
    yield "dot_scores", "scores in the thousands", pair(n_q, n_k, d_k, 30)
    for label, temperature in (("temperature 1", 1.0), ("a low temperature", 0.5), ("a high temperature", 3.0)):
        yield "scaled_scores", label, (*pair(*sizes()), temperature)
    yield "scaled_scores", "width 64", (*pair(3, 5, 64), 1.0)
    yield "scaled_scores", "width 1", (*pair(3, 2, 1), 1.0)
    yield "scaled_scores", "scores in the thousands", (*pair(3, 5, 7, 30), 1.0)
    yield "scaled_scores", "whole numbers", (*(rng.integers(-4, 5, size=(n, 3)) for n in (2, 4)), 2)
    for d_k in rng.permutation([2, 3, 5, 16, 100])[:3]:
        yield "score_std", f"width {d_k}, not scaled", (int(d_k), 1.0)
        yield "score_std", f"width {d_k}, scaled", (int(d_k), float(1 / np.sqrt(d_k)))
    yield "score_std", "another scale", (int(rng.integers(5, 60)), float(rng.uniform(0.2, 0.8)))
