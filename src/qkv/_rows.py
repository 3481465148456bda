"""What is said of each row in one pass over its keys, by the walk: for rows that no kernel has a number for."""

from collections.abc import Iterator

import numpy as np

from qkv._problem import Problem
from qkv._tiles import Rows, Running, Scores, read_scores, weights_of
from qkv._typing import Array


def surprise(scores: Scores, sums: Rows, weight: Array) -> Array:
    """Σ_j w_ij (lse_i − s_ij) over the tile, nats: (heads, rows). A key without weight adds nothing."""
    gap = (sums.peak - scores.biased) + np.log(sums.total)
    return np.where(weight == 0, 0, weight * gap).sum(axis=-1)


def take_largest(scores: Scores, value: Array, key: Array) -> None:
    """Put a tile's largest raw score of each row, and its key, in the place of a smaller one: (heads, rows) each."""
    raw = scores.raw if scores.visible is None else np.where(scores.visible, scores.raw, -np.inf)
    at = raw.argmax(axis=-1)
    found = np.take_along_axis(raw, at[..., None], axis=-1)[..., 0]
    better = (found > value) | (np.isnan(found) & ~np.isnan(value))
    value[better] = found[better]
    key[better] = at[better] + scores.tile.keys.start


def walk_rows(problem: Problem, heads: Array, rows: slice) -> dict[str, Array]:
    """peak, total, lse, entropy, max_score and max_key of some rows of a tile: (heads, rows) each."""
    shape = (len(heads), rows.stop - rows.start)
    largest, key = np.full(shape, -np.inf, problem.work), np.full(shape, -1, np.int64)
    running = Running(problem, heads, rows)
    for scores in _tiles_of(problem, heads, rows):
        running.add(scores)
        take_largest(scores.on_host(), largest, key)
    sums = running.rows()
    entropy = np.zeros(shape, problem.work)
    with np.errstate(all="ignore"):
        for scores in _tiles_of(problem, heads, rows):
            here, own = scores.on_host(), sums.on_host()
            entropy += surprise(here, own, weights_of(here, own))
    own = sums.on_host()
    peak, total = own.peak[..., 0], own.total[..., 0]
    found = {"peak": peak, "total": total, "lse": own.lse, "entropy": entropy}
    return found | {"max_score": largest, "max_key": key}


def _tiles_of(problem: Problem, heads: Array, rows: slice) -> Iterator[Scores]:
    found = (read_scores(problem, heads, rows, keys) for keys in problem.key_tiles)
    return (scores for scores in found if scores is not None)
