"""How far the weight goes: along the sequence, or across the patches of a picture."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from qkv._alignment import aligned, as_offset
from qkv._broadcast import check_batch, count, real, said
from qkv._scan import Distances, Want
from qkv._tile import Tile
from qkv._tiles import Rows, Scores
from qkv._typing import Array
from qkv.errors import ArgumentError, ShapeError
from qkv.measures._measure import Measure, Span, Tally
from qkv.measures._moments import Moments


class Distance(NamedTuple):
    """How far the weight goes from each query, and how much of it goes how far.

    mean: (…, n_q) keys, or pixels on a grid. variance: (…, n_q) the same, squared.
    edges: (n_bins + 1,) distances; bin b holds those from edges[b] up to, not including, edges[b + 1].
    histogram: (…, n_bins) queries, the weight of all rows in each bin; together the sum of all weights.
    """

    mean: Any
    variance: Any
    edges: Any
    histogram: Any


@dataclass(frozen=True, eq=False)
class distance(Measure):
    """How far the weight goes: mean and variance of d_ij = aligned(i) − j under w_ij, and a histogram of it.

    Distance(mean, variance, edges, histogram), in keys: the mean is Σ_j w_ij d_ij / Σ_j w_ij, 0 for a row that sees no
    key; with a sink the weights on the keys are what it is taken over. Positive is back. The bins of the histogram
    double in width: …, −3 to −2, −1, 0, 1, 2 to 3, 4 to 7, …; it counts queries.

    offset: the key position of query 0; None is the mask's. absolute: |d_ij| instead, which says more of a head that
    looks both ways.
    grid=(height, width): the positions are patches of a picture, row by row, and d_ij the Euclidean distance of their
    centres, times `patch`, the side of one in pixels. class_tokens: how many positions stand in front of the first
    patch and have no place: what they give or get isn't counted, and their own rows are 0.

    Vig & Belinkov 2019; on a grid Dosovitskiy et al. 2020, who do not say what is done with the class token.
    """

    offset: Any = None
    absolute: bool = False
    grid: tuple[int, int] | None = None
    class_tokens: int = 0
    patch: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "offset", as_offset(self.offset))
        tokens = count(self.class_tokens, "class_tokens of distance")
        if real(self.patch, "patch of distance") <= 0:
            raise ArgumentError(f"patch of distance is {self.patch}; expected the side of a patch in pixels, above 0")
        if self.grid is None:
            if tokens or self.patch != 1:
                raise ArgumentError("class_tokens and patch of distance say how a grid lies; give it with grid=")
            return
        if self.offset is not None:
            raise ArgumentError("distance takes either offset=, along a sequence, or grid=, across a picture")
        if not isinstance(self.grid, tuple | list) or len(self.grid) != 2:
            raise ArgumentError(f"grid of distance is {said(self.grid)}; expected (height, width), counts of patches")
        for side in self.grid:
            if not count(side, "grid of distance"):
                raise ArgumentError(f"grid of distance is {self.grid}; expected at least 1 patch each way")

    def start(self, span: Span) -> Tally:
        if self.grid is not None:
            return _OnGrid(self, span)
        check_batch(self.offset, span.map_shape, "offset of distance")
        return _Along(self, span)


class _Distance(Tally):
    """ahead, back: the farthest distance there may be to either side, both at least 0."""

    def __init__(self, span: Span, ahead: int, back: int) -> None:
        self._span = span
        self._ahead, self._back = ahead.bit_length(), back.bit_length()
        self._moments = Moments(span.heads, span.n_q)
        self._found: tuple[Array, Array] | None = None  # mean and variance as a kernel found them
        self._histogram = np.zeros((span.heads, self._ahead + 1 + self._back), np.float64)

    def weights(self, place: slice, scores: Scores, sums: Rows, weight: Array) -> None:
        tile = scores.tile
        there = self.of(tile)  # float64
        counted = self.counted(tile)
        if counted is not None:
            weight = np.where(counted, weight, 0)
        self._moments.add(place, tile.rows, weight, there)
        # of 0, 1, 2 to 3, 4 to 7, … the exponents are 0, 1, 2, 3, …
        side = self._ahead + np.copysign(np.frexp(np.abs(there))[1], there).astype(np.intp)
        self._histogram[place] += _by_bin(side, weight, self._histogram.shape[-1])

    def of(self, tile: Tile) -> Array:
        """The distances of a tile, float64: (heads or 1, rows, keys)."""
        raise NotImplementedError

    def counted(self, tile: Tile) -> Array | None:
        """Which cells count, bool (1, rows, keys); None for all."""
        return None

    def edges(self) -> Array:
        """Where the bins begin, and where the last one ends, as distances that are not yet scaled."""
        ahead = [1 - 2**k for k in range(self._ahead, 0, -1)]
        return np.array([*ahead, 0, *(2**k for k in range(self._back + 1))])

    def result(self) -> Distance:
        fold, moments = self._span.fold, self._moments
        mean, variance = (moments.mean, moments.variance) if self._found is None else self._found
        return Distance(fold(mean), fold(variance), self.edges(), fold(self._histogram))


class _Along(_Distance):
    def __init__(self, measure: distance, span: Span) -> None:
        self._offset, self._absolute = span.alignment(measure.offset), measure.absolute
        offset = np.atleast_1d(span.n_k - span.n_q if self._offset is None else self._offset)
        low, high = (int(offset.min()), int(offset.max())) if offset.size else (0, 0)
        ahead, back = max(0, span.n_k - 1 - low), max(0, high + span.n_q - 1)
        super().__init__(span, *((0, max(ahead, back)) if measure.absolute else (ahead, back)))

    def of(self, tile: Tile) -> Array:
        there = (aligned(self._offset, tile) - tile.j).astype(np.float64)
        return np.abs(there) if self._absolute else there

    def asks(self) -> tuple[Want, ...]:
        return (Distances(self._offset, self._absolute, self._ahead, self._back),)

    def take(self, heads: Array, *found: Any) -> None:
        mean, variance, self._histogram = found[0]
        self._found = (mean, variance)


class _OnGrid(_Distance):
    def __init__(self, measure: distance, span: Span) -> None:
        height, self._width = measure.grid or (1, 1)
        self._first, self._patch = measure.class_tokens, float(measure.patch)
        patches = self._first + height * self._width
        if (span.n_q, span.n_k) != (patches, patches):
            raise ShapeError(
                f"grid of distance is {measure.grid} with class_tokens = {self._first}, {patches} positions, and the "
                f"map has n_q = {span.n_q} and n_k = {span.n_k}; expected the same number of each"
            )
        super().__init__(span, 0, int(np.hypot(height - 1, self._width - 1)))

    def of(self, tile: Tile) -> Array:
        (i_y, i_x), (j_y, j_x) = (np.divmod(at - self._first, self._width) for at in (tile.i, tile.j))
        there: Array = np.sqrt((i_y - j_y) ** 2 + (i_x - j_x) ** 2)
        return there

    def counted(self, tile: Tile) -> Array | None:
        if not self._first:
            return None
        return (tile.i >= self._first) & (tile.j >= self._first)

    def edges(self) -> Array:
        return (super().edges() * self._patch).astype(self._span.work)

    def result(self) -> Distance:
        mean, variance, edges, histogram = super().result()
        patch = self._span.work.type(self._patch)
        return Distance(mean * patch, variance * patch**2, edges, histogram)


RUN = 64  # cells that a bin adds up one by one; with all of a tile the rounding would show


def _by_bin(bins: Array, weight: Array, n_bins: int) -> Array:
    """The weight in each bin, (heads, rows, keys) -> (heads, n_bins); bins (heads or 1, rows, keys): each one's."""
    heads, rows, keys = weight.shape
    run = np.arange(rows * keys).reshape(rows, keys) // RUN
    n_runs = -(-rows * keys // RUN)
    place = bins + n_bins * (run + n_runs * np.arange(heads)[:, None, None])
    by_run = np.bincount(place.ravel(), weight.ravel(), heads * n_runs * n_bins).reshape(heads, n_runs, n_bins)
    return np.ascontiguousarray(by_run.swapaxes(-1, -2)).sum(axis=-1)  # along an axis in order NumPy adds pairwise
