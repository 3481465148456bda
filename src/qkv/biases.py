"""What is added to the score, as values joined with `+`. A finite bias never hides a key; −inf does.

    dense(array)          any float array that broadcasts to (…, n_heads, n_q, n_k)
    alibi()               a penalty that grows with distance, one slope a head
    relative(table)       T5's learned number for each bucket of distance and head

A bias answers for one tile at a time, `of(tile)`, so a structured one is never expanded to n_q × n_k.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from qkv import _arrays
from qkv._alignment import Offset, aligned, as_offset, stated
from qkv._broadcast import brief, check_batch, check_cells
from qkv._tile import Tile
from qkv._typing import Array, Shape
from qkv.errors import ArgumentError, DTypeError, ShapeError

__all__ = ["Bias", "alibi", "alibi_slopes", "dense", "relative"]


class Bias:
    """A number for each cell, in nats, added to the score after the softcap and before the mask."""

    __array_ufunc__ = None  # NumPy leaves `array + bias` to __radd__

    def of(self, tile: Tile) -> Array:
        """The bias of the tile's cells, broadcasting to (heads, rows, keys)."""
        raise NotImplementedError

    is_by_distance = False  # whether the bias is a function of j − i, `by_distance`

    def by_distance(self, shape: Shape) -> Array:
        """The values at j − i = 1 − n_q … n_k − 1: (…heads, n_q + n_k − 1)."""
        raise NotImplementedError

    def check(self, shape: Shape) -> None:
        """Raise a ShapeError when the bias does not fit a map of this shape, (…, n_heads, n_q, n_k)."""

    def __add__(self, other: Any) -> "Bias":
        return _Sum(self, as_bias(other))

    def __radd__(self, other: Any) -> "Bias":
        return _Sum(as_bias(other), self)


def parts(bias: Bias | None) -> Iterator[Bias]:
    """The biases that are added up."""
    if isinstance(bias, _Sum):
        yield from parts(bias.a)
        yield from parts(bias.b)
    elif bias is not None:
        yield bias


def as_bias(value: Any, name: str = "bias") -> Bias:
    """`value` itself when it is a Bias, else `dense(value)`."""
    return value if isinstance(value, Bias) else dense(value, name)


@dataclass(frozen=True, eq=False, repr=False)
class dense(Bias):
    """A float array of any float dtype that broadcasts to (…, n_heads, n_q, n_k), in nats."""

    array: Any
    name: str = field(default="bias", repr=False)

    def __post_init__(self) -> None:
        if hasattr(self.array, "offsets"):
            raise DTypeError(f"{self.name} is the mask {self.array!r}; what a query may see goes into mask=")
        array = _arrays.view(self.array, self.name)
        if array.dtype == bool:
            raise DTypeError(
                f"{self.name} has dtype bool; expected a float to add to the score. "
                "What a query may see goes into mask=, True = may attend"
            )
        object.__setattr__(self, "array", _arrays.floating(array, self.name))

    def of(self, tile: Tile) -> Array:
        return tile.cells(self.array)

    def check(self, shape: Shape) -> None:
        check_cells(self.array, shape, self.name)

    def __repr__(self) -> str:
        return f"dense({brief(self.array)})"


def alibi_slopes(n_heads: int) -> Array:
    """ALiBi's slope of each head, 2^(−8h/n_heads) for h = 1 … n_heads: (n_heads,), nats per key (Press et al. 2022).

    For a number of heads that is no power of two: the slopes of the next lower power, then every other slope of the
    power above it, as the paper's authors do.
    """
    power = 1 << max(0, n_heads.bit_length() - 1)
    slopes = 2.0 ** (-8.0 * np.arange(1, power + 1) / power)
    between = 2.0 ** (-4.0 * np.arange(1, 2 * power + 1, 2) / power)
    return np.concatenate([slopes, between[: n_heads - power]])[:n_heads]


@dataclass(frozen=True, eq=False, repr=False)
class alibi(Bias):
    """−slope · |distance| from the query's position to the key, in nats (ALiBi, Press et al. 2022).

    slopes: (n_heads,) or one number, nats per key; None is `alibi_slopes(n_heads)`.
    offset: the key position of query 0, as in `masks.causal`.
    """

    slopes: Any = None
    offset: Any = None

    def __post_init__(self) -> None:
        if self.slopes is not None:
            object.__setattr__(self, "slopes", _arrays.floating(self.slopes, "slopes of alibi").astype(np.float64))
        object.__setattr__(self, "offset", as_offset(self.offset))

    is_by_distance = True

    def of(self, tile: Tile) -> Array:
        distance = np.abs(aligned(self.offset, tile) - tile.j)
        return -self._slope(tile)[:, None, None] * distance

    def by_distance(self, shape: Shape) -> Array:
        n_heads = shape[-3] if len(shape) > 2 else 1
        slopes = alibi_slopes(n_heads) if self.slopes is None else np.broadcast_to(self.slopes, (n_heads,))
        table = -slopes[:, None] * np.abs(_distances(self.offset, shape))[..., None, :]
        return table if len(shape) > 2 else table[0]

    def _slope(self, tile: Tile) -> Array:
        if self.slopes is None:
            return alibi_slopes(tile.shape[-3] if len(tile.shape) > 2 else 1)[tile.head]
        return np.atleast_1d(self.slopes)[tile.head if self.slopes.size > 1 else np.zeros(1, dtype=np.intp)]

    def check(self, shape: Shape) -> None:
        check_batch(self.offset, shape, "offset of alibi")
        n_heads = shape[-3] if len(shape) > 2 else 1
        if self.slopes is not None and self.slopes.shape not in ((), (1,), (n_heads,)):
            raise ShapeError(f"slopes of alibi have shape {self.slopes.shape}; expected (n_heads,) = ({n_heads},)")

    def __repr__(self) -> str:
        said = ["" if self.slopes is None else brief(self.slopes), stated(self.offset)]
        return f"alibi({', '.join(part for part in said if part)})"


@dataclass(frozen=True, eq=False, repr=False)
class relative(Bias):
    """A learned number for each bucket of distance and each head (T5, Raffel et al. 2020).

    table: (n_buckets, n_heads), nats.
    bidirectional: half of the buckets for keys after the query; else those share the bucket of distance 0.
    max_distance: in keys; from there on all distances share the last bucket. Half of the buckets on a side stand for
        one distance each, the others for ranges that grow by a constant factor.
    offset: the key position of query 0, as in `masks.causal`.
    """

    table: Any
    bidirectional: bool = True
    max_distance: int = 128
    offset: Any = None

    def __post_init__(self) -> None:
        table = _arrays.floating(self.table, "table of relative")
        if table.ndim != 2 or table.shape[0] < (4 if self.bidirectional else 2):
            raise ShapeError(f"table of relative has shape {table.shape}; expected (n_buckets >= 4, n_heads)")
        exact = table.shape[0] // (4 if self.bidirectional else 2)
        if self.max_distance <= exact:
            raise ArgumentError(
                f"max_distance is {self.max_distance}; expected more than {exact}, the distances with an own bucket"
            )
        object.__setattr__(self, "table", table)
        object.__setattr__(self, "offset", as_offset(self.offset))

    def bucket(self, distance: Array) -> Array:
        """The row of the table for key position − query position, elementwise."""
        buckets, first = self.table.shape[0], np.zeros_like(distance)
        if self.bidirectional:
            buckets //= 2
            first = np.where(distance > 0, buckets, 0)
            distance = np.abs(distance)
        else:
            distance = np.maximum(-distance, 0)
        exact = buckets // 2
        # float32, as the models were trained: at a bucket's edge another rounding is another bucket
        ratio = np.log(np.maximum(distance, 1).astype(np.float32) / exact) / np.float32(
            np.log(self.max_distance / exact)
        )
        far = np.minimum(exact + (ratio * (buckets - exact)).astype(np.int64), buckets - 1)
        return np.asarray(first + np.where(distance < exact, distance, far))

    is_by_distance = True

    def of(self, tile: Tile) -> Array:
        bucket = self.bucket(tile.j - aligned(self.offset, tile))
        return np.asarray(self.table[bucket, tile.head[:, None, None]])

    def by_distance(self, shape: Shape) -> Array:
        rows = self.table[self.bucket(_distances(self.offset, shape))]
        return np.asarray(np.moveaxis(rows, -1, -2) if len(shape) > 2 else rows[..., 0]).astype(np.float64)

    def check(self, shape: Shape) -> None:
        check_batch(self.offset, shape, "offset of relative")
        n_heads = shape[-3] if len(shape) > 2 else 1
        if self.table.shape[1] != n_heads:
            raise ShapeError(
                f"table of relative has {self.table.shape[1]} heads; the map has {n_heads}: "
                "expected (n_buckets, n_heads)"
            )

    def __repr__(self) -> str:
        said = [brief(self.table), str(self.bidirectional), str(self.max_distance), stated(self.offset)]
        return f"relative({', '.join(part for part in said if part)})"


@dataclass(frozen=True, eq=False, repr=False)
class _Sum(Bias):
    a: Bias
    b: Bias

    def of(self, tile: Tile) -> Array:
        return self.a.of(tile) + self.b.of(tile)

    def check(self, shape: Shape) -> None:
        self.a.check(shape)
        self.b.check(shape)

    def __repr__(self) -> str:
        return f"{self.a!r} + {self.b!r}"


def _distances(offset: Offset, shape: Shape) -> Array:
    """Key position − query position for j − i = 1 − n_q … n_k − 1: (…batch axes of the offset, n_q + n_k − 1)."""
    start = np.asarray(shape[-1] - shape[-2] if offset is None else offset)
    return np.asarray(np.arange(1 - shape[-2], max(shape[-1], 1)) - start[..., None])
