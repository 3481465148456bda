"""Exact cells of the map on request: a rectangle of it, or single cells. Memory: the result and one tile."""

from typing import Any

import numpy as np

from qkv._arrays import NUMPY, dtype_name
from qkv._cells import Cells, Stage
from qkv._problem import KEY_TILE, QUERY_TILE, Problem
from qkv._progress import Work
from qkv._typing import Array, DType


def stage_dtype(problem: Problem, stage: Stage) -> Any:
    """Weights are of the dtype of q; scores, like lse, of the dtype that everything is computed in."""
    return problem.dtype if stage == "weight" else problem.work_own


def _host_dtype(problem: Problem, stage: Stage) -> DType:
    """The dtype in which cells are gathered on the host: that of the stage where NumPy has it."""
    if problem.library == NUMPY:
        return np.dtype(stage_dtype(problem, stage))
    # bfloat16 is gathered in float32, for NumPy has none of its own
    return np.dtype(np.float16) if stage == "weight" and dtype_name(problem.q) == "float16" else problem.work


def rectangle(problem: Problem, stage: Stage, heads: Array, i: Array, j: Array) -> Array:
    """The cells of these heads (flat), queries and keys: -> (len(heads), len(i), len(j))."""
    out = _empty(problem, stage, (len(heads), len(i), len(j)))
    if not out.size:
        return out
    work, source = Work(len(heads) * len(i)), Cells(problem)
    for place, here in problem.heads(heads):
        for row_at, rows in _by_tile(i, source.step[0]):
            sums = source.sums(here, rows) if stage == "weight" else None
            for key_at, keys in _by_tile(j, source.step[1]):
                cells = source.read(stage, here, rows, keys, sums)
                if cells is not None:
                    picked = _pick(_pick(cells, i[row_at] - rows.start, 1), j[key_at] - keys.start, 2)
                    out[place, *_open(row_at, key_at)] = picked
            work.advance(len(here) * len(row_at))
    return out


def points(problem: Problem, stage: Stage, heads: Array, i: Array, j: Array) -> Array:
    """Single cells, given by three flat arrays of one length: -> (len(i),)."""
    out, source = _empty(problem, stage, (len(i),)), Cells(problem)
    group = heads * len(problem.row_tiles) + i // QUERY_TILE
    for which in np.unique(group):
        at = np.flatnonzero(group == which)
        here = heads[at[:1]]
        rows = _hull(i[at])
        sums = source.sums(here, rows) if stage == "weight" else None
        for key_at, keys in _by_tile(j[at], KEY_TILE):
            cells = source.read(stage, here, rows, keys, sums)
            if cells is not None:
                out[at[key_at]] = cells[0, i[at[key_at]] - rows.start, j[at[key_at]] - keys.start]
    return out


def _empty(problem: Problem, stage: Stage, shape: tuple[int, ...]) -> Array:
    """What a cell is where nobody may see it."""
    return np.full(shape, -np.inf if stage == "biased" else 0, _host_dtype(problem, stage))


def _by_tile(index: Array, step: int) -> list[tuple[Array, slice]]:
    """Which entries of `index` lie in each tile, and the span that they cover there."""
    tile = index // step
    at_of = ((np.flatnonzero(tile == which)) for which in np.unique(tile))
    return [(at, _hull(index[at])) for at in at_of]


def _hull(index: Array) -> slice:
    return slice(int(index.min()), int(index.max()) + 1)


def _pick(cells: Array, at: Array, axis: int) -> Array:
    """The cells at these places of an axis, as they are where that is all of them in order."""
    whole = len(at) == cells.shape[axis] and bool((at == np.arange(len(at))).all())
    return cells if whole else np.take(cells, at, axis=axis)


def _open(rows: Array, keys: Array) -> tuple[slice, slice] | tuple[Array, Array]:
    """The rectangle of ascending indices of two axes: as slices where neither has gaps, which copies once."""
    if all(int(at[-1]) - int(at[0]) + 1 == len(at) for at in (rows, keys)):
        return slice(int(rows[0]), int(rows[-1]) + 1), slice(int(keys[0]), int(keys[-1]) + 1)
    return rows[:, None], keys
