"""The map as a picture of bounded size, pooled from the exact weights."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from qkv._broadcast import count
from qkv._scan import Picture, Visible, Want
from qkv._tiles import Rows, Scores
from qkv._typing import Array
from qkv.errors import ArgumentError
from qkv.measures._measure import Measure, Span, Tally


@dataclass(frozen=True)
class image(Measure):
    """The map shrunk to a picture: each pixel is the mean or the maximum of w_ij over its visible cells, a share.

    (…, min(height, n_q), min(width, n_k)); width=None is height. NaN where no cell is visible; never enlarged.
    Pixel p of P covers the rows (or keys) i with ⌊i·P/n⌋ = p. A single weight of 1 vanishes in the mean of a large
    pixel and stands in the maximum. Large matrices are browsed elsewhere the same
    way (Kerpedjiev et al. 2018).
    """

    height: int
    width: int | None = None
    pool: str = "mean"

    def __post_init__(self) -> None:
        for name in ("height", "width"):
            if name == "height" or self.width is not None:
                count(getattr(self, name), f"{name} of image", least=1)
        if self.pool not in ("mean", "max"):
            raise ArgumentError(f'pool is {self.pool!r}; expected "mean" or "max"')

    def start(self, span: Span) -> Tally:
        width = self.height if self.width is None else self.width
        height, width = min(self.height, span.n_q), min(width, span.n_k)
        span.refuse_large(2 * span.heads * height * width, "ask for fewer pixels, or for the picture of one head")
        return _Image(height, width, self.pool, span)


class _Image(Tally):
    def __init__(self, height: int, width: int, pool: str, span: Span) -> None:
        self._height, self._width, self._pool, self._span = height, width, pool, span

    @cached_property
    def _value(self) -> Array:
        return np.zeros((self._span.heads, self._height, self._width), np.float64)

    @cached_property
    def _cells(self) -> Array:
        return np.zeros((self._span.heads, self._height, self._width), np.int64)

    def weights(self, place: slice, scores: Scores, sums: Rows, weight: Array) -> None:
        rows, row_starts = _pixels(scores.tile.rows, self._height, self._span.n_q)
        keys, key_starts = _pixels(scores.tile.keys, self._width, self._span.n_k)
        join = np.add if self._pool == "mean" else np.maximum
        # whole rows first, slice by slice: that is quick, and few are left for the slow way along a row
        ends = [*row_starts[1:], weight.shape[-2]]
        slices = [join.reduce(weight[:, a:b], axis=-2) for a, b in zip(row_starts, ends, strict=True)]
        part = join.reduceat(np.stack(slices, axis=-2), key_starts, axis=-1)
        value = self._value[place, rows, keys]
        join(value, part, out=value)
        if scores.visible is None:
            heights = np.diff([*row_starts, weight.shape[-2]])
            self._cells[place, rows, keys] += heights[:, None] * np.diff([*key_starts, weight.shape[-1]])
        else:
            sees = np.broadcast_to(scores.visible, (len(scores.visible), *weight.shape[-2:])).astype(np.int32)
            self._cells[place, rows, keys] += np.add.reduceat(
                np.add.reduceat(sees, row_starts, axis=-2), key_starts, axis=-1
            )

    def asks(self) -> tuple[Want, ...]:
        return Picture(self._height, self._width, self._pool), Visible((self._height, self._width))

    def take(self, heads: Array, *found: Any) -> None:
        self._value, self._cells = found

    def result(self) -> Array:
        value = self._value
        if self._pool == "mean":
            with np.errstate(invalid="ignore"):
                np.divide(value, self._cells, out=value)
        value[self._cells == 0] = np.nan
        return self._span.fold(value)


def _pixels(span: slice, pixels: int, size: int) -> tuple[slice, Array]:
    """The pixels that a span of rows or keys falls into, and where in the span each begins."""
    pixel = np.arange(span.start, span.stop) * pixels // size
    starts = np.flatnonzero(np.diff(pixel, prepend=-1))
    return slice(int(pixel[0]), int(pixel[-1]) + 1), starts
