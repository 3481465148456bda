"""What a measure is: a value that starts a tally, which watches a walk over the tiles and gives a result."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from qkv import _kernel
from qkv._alignment import Offset
from qkv._problem import Problem, refuse_bytes
from qkv._scan import Want, scan
from qkv._tiles import Rows, Scores, Watcher, walk
from qkv._typing import Array, DType, Shape
from qkv.errors import ArgumentError


@dataclass(frozen=True)
class Span:
    """The part of a map that a measure covers.

    problem: what is measured. chosen: its heads that are, flat indices of any shape.
    lead: the axes before n_q of the result. heads: how many heads that is. map_shape: of the whole problem.
    work: dtype of the results. offset, offset_is_clear: the alignment that the mask states.
    """

    problem: Problem
    chosen: Array
    lead: Shape
    heads: int
    map_shape: Shape
    work: DType
    offset: Offset
    offset_is_clear: bool

    @property
    def n_q(self) -> int:
        return self.map_shape[-2]

    @property
    def n_k(self) -> int:
        return self.map_shape[-1]

    def fold(self, array: Array) -> Array:
        """(heads, …) -> (…lead, …), in the dtype of results; integers stay integers."""
        folded = array.reshape(self.lead + array.shape[1:])
        return folded.astype(self.work, copy=False) if folded.dtype.kind == "f" else folded

    def refuse_large(self, numbers: int, way_out: str) -> None:
        """Raise a DenseError when a result of this many numbers is more than 1 GiB."""
        refuse_bytes(numbers * self.work.itemsize, way_out)

    def alignment(self, offset: Offset) -> Offset:
        """`offset` where one is given, else the one that the mask states."""
        if offset is None and not self.offset_is_clear:
            raise ArgumentError("the mask states more than one offset; say which the measure means with offset=")
        return self.offset if offset is None else offset


class Tally(Watcher):
    """A measure under way: it watches the tile walk, or takes what a kernel found."""

    def asks(self) -> tuple[Want, ...] | None:
        """What a kernel is to find for it; None where it can only watch."""
        return None

    def take(self, heads: Array, *found: Any) -> None:
        """What was found for each want, in order, in place of the walk; heads: the chosen ones, flat."""
        raise NotImplementedError

    def result(self) -> Any:
        """The result, once the walk is over."""
        raise NotImplementedError


class Measure:
    """A number for each row, key or cell of a picture. Subclasses are frozen dataclasses, so they compare by value."""

    def start(self, span: Span) -> Tally:
        """Check the arguments against the map and begin; the errors are those of `qkv.errors`."""
        raise NotImplementedError


class RowMeasure(Measure):
    """A measure that joins one or more numbers a row over the tiles of that row."""

    n_parts: ClassVar[int] = 1
    join: ClassVar[np.ufunc] = np.add

    def start(self, span: Span) -> Tally:
        return _RowTally(self, span)

    def asks(self, span: Span) -> tuple[Want, ...] | None:
        """The joined numbers as a kernel finds them, one want for each, (heads, n_q); None where it doesn't."""
        return None

    def parts(self, scores: Scores, sums: Rows, weight: Array, span: Span) -> tuple[Array, ...]:
        """This tile's numbers, each (heads, rows)."""
        raise NotImplementedError

    def finish(self, *joined: Array) -> Array:
        """The measure from the joined numbers, each (heads, n_q)."""
        return joined[0]


class _RowTally(Tally):
    def __init__(self, measure: RowMeasure, span: Span) -> None:
        self._measure, self._span = measure, span
        self._joined = [np.zeros((span.heads, span.n_q), span.work) for _ in range(measure.n_parts)]

    def weights(self, place: slice, scores: Scores, sums: Rows, weight: Array) -> None:
        with np.errstate(all="ignore"):
            parts = self._measure.parts(scores, sums, weight, self._span)
        for joined, part in zip(self._joined, parts, strict=True):
            at = joined[place, scores.tile.rows]
            self._measure.join(at, part, out=at)

    def asks(self) -> tuple[Want, ...] | None:
        return self._measure.asks(self._span)

    def take(self, heads: Array, *found: Any) -> None:
        self._joined = [each.reshape(len(heads), self._span.n_q) for each in found]

    def result(self) -> Array:
        with np.errstate(all="ignore"):
            return self._span.fold(self._measure.finish(*self._joined))


def visible_count(scores: Scores) -> Array:
    """How many keys of the tile each query sees: (heads or 1, rows or 1)."""
    keys = scores.tile.keys
    if scores.visible is None:
        return np.full((1, 1), keys.stop - keys.start)
    whole = scores.visible.shape[-1] > 1
    return scores.visible.sum(axis=-1) * (1 if whole else keys.stop - keys.start)


def run(problem: Problem, lead: Array, tallies: list[Tally]) -> None:
    """Give the tallies what they want, for the heads of `lead` (flat indices), from the kernel or from the tile walk.

    Which of the two a tally has depends on nothing but itself and the problem, so its bits do not depend on the others.
    """
    compiled = _kernel.refusal(problem) is None and lead.size and min(problem.shape[-2:]) > 0
    wanted = {tally: tally.asks() for tally in tallies} if compiled else {}
    found = {tally: wants for tally, wants in wanted.items() if wants is not None}
    results = iter(scan(problem, lead, [want for wants in found.values() for want in wants]) if found else ())
    for tally, wants in found.items():
        tally.take(np.ravel(lead), *(next(results) for _ in wants))
    rest = [tally for tally in tallies if tally not in found]
    if rest:
        walk(problem, np.ravel(lead), list(rest))
