"""Sums of rows, cells of rectangles and A.T @ x: by the chosen kernel, or by the tile walk where that can't."""

from typing import Any, Literal

import numpy as np

from qkv import _kernel, _tiles
from qkv._arrays import NUMPY, host
from qkv._kernel import core
from qkv._problem import KEY_TILE, QUERY_TILE, Problem
from qkv._progress import Work, quietly
from qkv._rows import walk_rows
from qkv._tiles import Rows
from qkv._typing import Array

Stage = Literal["weight", "raw", "capped", "biased"]
STAGES = {"weight": 0, "biased": 1, "capped": 2, "raw": 3}  # as the kernels count them


class Cells:
    """A problem read where it is asked: the sums of some rows, and from them the cells of a rectangle."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._form = None if _kernel.refusal(problem) else _kernel.form(problem)

    @property
    def step(self) -> tuple[int, int]:
        """Rows and keys of the rectangles to ask for at once: a few MB, so that nothing grows with the map."""
        return (QUERY_TILE, KEY_TILE) if self._form is None else (3 * QUERY_TILE, 8 * KEY_TILE)

    def sums(self, heads: Array, rows: slice) -> Rows:
        """What the softmax of each of these rows divides by."""
        if self._form is None:
            return _tiles.row_sums(self._problem, heads, rows)
        with quietly():
            found = row_results(self._problem, self._form, heads, rows, ("peak", "total"))
        return Rows(NUMPY, found["peak"][..., None], found["total"][..., None])

    def read(self, stage: Stage, heads: Array, rows: slice, keys: slice, sums: Rows | None = None) -> Array | None:
        """(heads, rows, keys) on the host, in the work dtype; None where all is hidden. The sums are for weights."""
        if self._form is None:
            return self._walked(stage, heads, rows, keys, sums)
        shape = (len(heads), rows.stop - rows.start, keys.stop - keys.start)
        out = np.empty(shape, self._problem.work)
        described = _kernel.Described(self._problem, self._form, heads, rows)
        peak, total = (None, None) if sums is None else (sums.peak, sums.total)
        with quietly():
            core.window(_kernel.chosen(), described.problem, peak, total, STAGES[stage], keys.start, keys.stop, out)
        return out

    def _walked(self, stage: Stage, heads: Array, rows: slice, keys: slice, sums: Rows | None) -> Array | None:
        if stage in ("weight", "biased"):
            scores = _tiles.read_scores(self._problem, heads, rows, keys)
            if scores is None:
                return None
            return host(scores.biased if sums is None else _tiles.weights_of(scores, sums))
        every = _tiles.read_all_stages(self._problem, heads, rows, keys)
        return host(every.raw if stage == "raw" else every.capped)


def row_results(
    problem: Problem, form: _kernel.Form, heads: Array, rows: slice, names: tuple[str, ...]
) -> dict[str, Array]:
    """What one pass of the kernel over the keys says of each row, by the names of `_kernel.ROWS`: (heads, rows) each.

    Rows that see NaN or an infinite score are the walk's.
    """
    asked = dict.fromkeys((*names, "total"))
    shape = (len(heads), rows.stop - rows.start)
    found = {name: np.empty(shape, np.int64 if name == "max_key" else problem.work) for name in asked}
    described = _kernel.Described(problem, form, heads, rows)
    core.apply(_kernel.chosen(), described.problem, None, (), None, tuple(found.get(name) for name in _kernel.ROWS))
    mend_rows(problem, heads, rows, found)
    return found


def mend_rows(problem: Problem, heads: Array, rows: slice, found: dict[str, Array]) -> None:
    """Compute rows whose "total" is NaN again, by the walk: it knows who sees what."""
    for head in np.flatnonzero(np.isnan(found["total"]).any(axis=-1)):
        lost = np.flatnonzero(np.isnan(found["total"][head])) + rows.start
        for tile in problem.row_tiles:
            here = lost[(lost >= tile.start) & (lost < tile.stop)]
            if here.size:
                walked = walk_rows(problem, heads[head : head + 1], tile)
                for name, array in found.items():
                    array[head, here - rows.start] = walked[name][0, here - tile.start]


def apply_transposed(problem: Problem, lead: Array, x: Any) -> Any:
    """A.T @ x for the heads of `lead`, as `_tiles.apply_transposed`: (…, n_q, c) -> (*lead, n_k, c)."""
    if _kernel.refusal(problem) is not None or not lead.size:
        return _tiles.apply_transposed(problem, lead, x)
    form, heads, rows = _kernel.form(problem), lead.reshape(-1), slice(0, problem.shape[-2])
    n_rows = lead.size * problem.shape[-2]
    work, first = Work(n_rows), n_rows // 2
    with work.part(first):  # the first of two passes
        sums = row_results(problem, form, heads, rows, ("peak", "total"))
    out = np.zeros((len(heads), problem.shape[-1], x.shape[-1]), problem.work)
    described = _kernel.Described(problem, form, heads, rows)
    with work.part(n_rows - first):
        core.apply_transposed(
            _kernel.chosen(), described.problem, sums["peak"], sums["total"], described.rows(x), lead.shape, out
        )
    with np.errstate(over="ignore"):
        return problem.library.give(out.reshape(*lead.shape, *out.shape[1:]), problem.dtype)
