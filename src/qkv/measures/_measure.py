"""What a measure is: a value that starts a tally, which watches a walk over the tiles and gives a result."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from qkv._alignment import Offset
from qkv._problem import refuse_bytes
from qkv._tiles import Rows, Scores, Watcher
from qkv._typing import Array, DType, Shape
from qkv.errors import ArgumentError


@dataclass(frozen=True)
class Span:
    """The part of a map that a measure covers.

    lead: the axes before n_q of the result. heads: how many heads that is. map_shape: of the whole problem.
    work: dtype of the results. offset, offset_is_clear: the alignment that the mask states.
    """

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
    """A measure under way."""

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
