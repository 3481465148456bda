"""Weight by where the key stands, seen from the query. The query's own position is its aligned one."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from qkv._alignment import aligned, as_offset
from qkv._broadcast import check_batch, count
from qkv._scan import Band, Want
from qkv._tiles import Rows, Scores
from qkv._typing import Array
from qkv.errors import DTypeError
from qkv.measures._measure import RowMeasure, Span, Tally


@dataclass(frozen=True, eq=False)
class diagonal(RowMeasure):
    """The weight at a fixed distance: w_ij at j = aligned(i) + o; 0 where there is no such key or it is hidden.

    o: −1 is the previous token, 0 the own, 1 the next. offset: the key position of query 0; None is the mask's.
    (…, n_q), a share. The previous-token score of a head (Elhage et al. 2021) is the mean over rows.
    """

    o: int = 0
    offset: Any = None

    def __post_init__(self) -> None:
        if isinstance(self.o, bool) or not isinstance(self.o, int | np.integer):
            raise DTypeError(f"o of diagonal is {self.o!r}; expected an integer, −1 for the previous key")
        object.__setattr__(self, "offset", as_offset(self.offset))

    def start(self, span: Span) -> Tally:
        check_batch(self.offset, span.map_shape, "offset of diagonal")
        return super().start(span)

    def parts(self, scores: Scores, sums: Rows, weight: Array, span: Span) -> tuple[Array, ...]:
        tile = scores.tile
        at = aligned(span.alignment(self.offset), tile) + self.o - tile.keys.start
        inside = (at >= 0) & (at < weight.shape[-1])
        there = np.broadcast_to(np.where(inside, at, 0), (*weight.shape[:-1], 1))
        return (np.where(inside, np.take_along_axis(weight, there, axis=-1), 0)[..., 0],)

    def asks(self, span: Span) -> tuple[Want, ...]:
        return (Band(span.alignment(self.offset), int(self.o), int(self.o)),)


@dataclass(frozen=True, eq=False)
class local(RowMeasure):
    """The weight near the query: Σ w_ij over |j − aligned(i)| <= width.

    width: keys on each side. offset: the key position of query 0; None is the mask's. (…, n_q), a share. Tells local
    heads from retrieving ones (Beltagy et al. 2020; Xiao et al. 2024).
    """

    width: int
    offset: Any = None

    def __post_init__(self) -> None:
        count(self.width, "width of local")
        object.__setattr__(self, "offset", as_offset(self.offset))

    def start(self, span: Span) -> Tally:
        check_batch(self.offset, span.map_shape, "offset of local")
        return super().start(span)

    def parts(self, scores: Scores, sums: Rows, weight: Array, span: Span) -> tuple[Array, ...]:
        distance = np.abs(aligned(span.alignment(self.offset), scores.tile) - scores.tile.j)
        return (np.where(distance <= self.width, weight, 0).sum(axis=-1),)

    def asks(self, span: Span) -> tuple[Want, ...]:
        return (Band(span.alignment(self.offset), -int(self.width), int(self.width)),)
