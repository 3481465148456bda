"""Weight by where the key stands, seen from the query. The query's own position is its aligned one."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from qkv._alignment import aligned, as_offset
from qkv._broadcast import check_batch, count, integers
from qkv._tiles import Rows, Scores
from qkv._typing import Array
from qkv.errors import DTypeError, ShapeError
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


@dataclass(frozen=True, eq=False)
class local(RowMeasure):
    """The weight near the query: Σ w_ij over |j − aligned(i)| <= width.

    width: keys on each side. offset: the key position of query 0; None is the mask's. (…, n_q), a share. Tells local
    heads from retrieving ones (Beltagy et al. 2020; Xiao et al. 2024).
    """

    width: int
    offset: Any = None

    def __post_init__(self) -> None:
        if count(self.width, "width of local") is None:
            raise DTypeError("width of local is None; expected an integer >= 0")
        object.__setattr__(self, "offset", as_offset(self.offset))

    def start(self, span: Span) -> Tally:
        check_batch(self.offset, span.map_shape, "offset of local")
        return super().start(span)

    def parts(self, scores: Scores, sums: Rows, weight: Array, span: Span) -> tuple[Array, ...]:
        distance = np.abs(aligned(span.alignment(self.offset), scores.tile) - scores.tile.j)
        return (np.where(distance <= self.width, weight, 0).sum(axis=-1),)


@dataclass(frozen=True, eq=False)
class induction(RowMeasure):
    """The weight on the keys that follow an earlier copy of the query's token: Σ w_ij over j <= i, t_{j−1} = t_i.

    ids: (n_k,) token ids, or (…, n_k) with the batch axes; the query's token is the one at its aligned position.
    offset: as in `diagonal`. (…, n_q), a share. The prefix-matching score of Olsson et al. 2022.
    """

    ids: Any
    offset: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", integers(self.ids, "ids of induction"))
        object.__setattr__(self, "offset", as_offset(self.offset))

    def start(self, span: Span) -> Tally:
        if self.ids.ndim == 0 or self.ids.shape[-1] != span.n_k:
            raise ShapeError(f"ids of induction have shape {self.ids.shape}; expected (…, n_k = {span.n_k})")
        check_batch(self.ids, span.map_shape, "ids of induction", tail=1)
        check_batch(self.offset, span.map_shape, "offset of induction")
        return super().start(span)

    def parts(self, scores: Scores, sums: Rows, weight: Array, span: Span) -> tuple[Array, ...]:
        tile = scores.tile
        ids = tile.batch(self.ids, tail=1)
        at = aligned(span.alignment(self.offset), tile)
        here = np.clip(at[..., 0], 0, tile.n_k - 1)
        heads = max(len(ids), len(here))
        own = np.take_along_axis(
            np.broadcast_to(ids, (heads, tile.n_k)), np.broadcast_to(here, (heads, here.shape[1])), axis=-1
        )
        before = np.roll(ids, 1, axis=-1)[:, None, tile.keys]
        follows = (before == own[:, :, None]) & (tile.j >= 1) & (tile.j <= at) & (at < tile.n_k)
        return (np.where(follows, weight, 0).sum(axis=-1),)
