"""Who may see whom: masks as values, joined with `&`, `|` and `~`. True means that a query may attend to a key.

    causal() & window(128, 0)        the last 128 keys and the query's own
    segments(ids)                    packed documents: each sees only itself
    lengths([7, 12]) | ~segments(x)  anything built from them

A mask answers for one tile at a time, `of(tile)`: True when everybody in it sees everybody, False when nobody sees
anybody (such a tile is never computed), else a bool array that broadcasts to (heads, rows, keys).

**Alignment.** Query i stands at key position i + offset. `offset=None` is n_k − n_q: the last query sees the last
key, which is right with a cache of earlier keys. An int, or an integer array over the batch axes, says otherwise.

    causal() with n_q = 2, n_k = 5      causal() with n_q = 5, n_k = 2

        x x x x .                           . .
        x x x x x                           . .
                                            . .
                                            x .
                                            x x
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from qkv import _arrays
from qkv._alignment import aligned, as_offset, stated
from qkv._broadcast import brief, check_batch, check_cells, count, integers
from qkv._tile import Tile
from qkv._typing import Array, Shape
from qkv.errors import ArgumentError, DTypeError, ShapeError

__all__ = ["Mask", "causal", "dense", "lengths", "segments", "window"]


class Mask:
    """A rule that says which keys each query may see."""

    # NumPy leaves `array & mask` to __rand__ instead of looping over the array.
    __array_ufunc__ = None

    def of(self, tile: Tile) -> bool | Array:
        """True (all see all), False (nobody sees anything), or bool, broadcasting to (heads, rows, keys)."""
        raise NotImplementedError

    def check(self, shape: Shape) -> None:
        """Raise a ShapeError when the mask does not fit a map of this shape, (…, n_heads, n_q, n_k)."""

    def offsets(self, shape: Shape) -> Iterator[int | Array]:
        """The alignments that the mask uses, in order, the default among them: key positions of query 0."""
        return iter(())

    def __and__(self, other: Any) -> "Mask":
        return _And(self, as_mask(other))

    def __or__(self, other: Any) -> "Mask":
        return _Or(self, as_mask(other))

    def __invert__(self) -> "Mask":
        return _Not(self)

    def __rand__(self, other: Any) -> "Mask":
        return as_mask(other) & self

    def __ror__(self, other: Any) -> "Mask":
        return as_mask(other) | self


def as_mask(value: Any, name: str = "mask") -> Mask:
    """`value` itself when it is a Mask, else `dense(value)`."""
    return value if isinstance(value, Mask) else dense(value, name)


@dataclass(frozen=True, eq=False, repr=False)
class causal(Mask):
    """A query sees the keys up to its own position, j <= i + offset.

    offset: the key position of query 0; None is n_k − n_q. An int, or integers over the batch axes.
    """

    offset: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "offset", as_offset(self.offset))

    def of(self, tile: Tile) -> bool | Array:
        at = aligned(self.offset, tile)
        return _within(tile, None, at)

    def check(self, shape: Shape) -> None:
        check_batch(self.offset, shape, "offset of causal")

    def offsets(self, shape: Shape) -> Iterator[int | Array]:
        yield shape[-1] - shape[-2] if self.offset is None else self.offset

    def __repr__(self) -> str:
        return f"causal({stated(self.offset)})"


@dataclass(frozen=True, eq=False, repr=False)
class window(Mask):
    """A query sees `left` keys before and `right` keys after its own position, and always that one.

    left, right: counts of keys; None leaves that side open. A "sliding window of w" elsewhere is (w − 1, 0).
    offset: as in `causal`.
    """

    left: int | None
    right: int | None
    offset: Any = None

    def __post_init__(self) -> None:
        for name in ("left", "right"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, count(value, f"{name} of window"))
        object.__setattr__(self, "offset", as_offset(self.offset))

    def of(self, tile: Tile) -> bool | Array:
        at = aligned(self.offset, tile)
        first = None if self.left is None else at - self.left
        last = None if self.right is None else at + self.right
        return _within(tile, first, last)

    def check(self, shape: Shape) -> None:
        check_batch(self.offset, shape, "offset of window")

    def offsets(self, shape: Shape) -> Iterator[int | Array]:
        yield shape[-1] - shape[-2] if self.offset is None else self.offset

    def __repr__(self) -> str:
        offset = stated(self.offset)
        return f"window({self.left}, {self.right}{', ' + offset if offset else ''})"


@dataclass(frozen=True, eq=False, repr=False)
class lengths(Mask):
    """Padding: key j is visible when j < keys; with `queries`, query i sees keys only when i < queries.

    keys, queries: integers over the batch axes (the axes before the heads), or one integer.
    """

    keys: Any
    queries: Any = None

    def __post_init__(self) -> None:
        for name in ("keys", "queries"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, integers(value, f"lengths {name}"))

    def of(self, tile: Tile) -> bool | Array:
        sees = _below(tile.j, tile.batch(self.keys)[:, None, None], tile.keys)
        if self.queries is None or sees is False:
            return sees
        return _both(sees, _below(tile.i, tile.batch(self.queries)[:, None, None], tile.rows))

    def check(self, shape: Shape) -> None:
        for each, size, name in ((self.keys, shape[-1], "n_k"), (self.queries, shape[-2], "n_q")):
            if each is None:
                continue
            check_batch(each, shape, "lengths")
            if each.size and (each.min() < 0 or each.max() > size):
                raise ArgumentError(
                    f"lengths has values from {each.min()} to {each.max()}; expected 0 to {name} = {size}"
                )

    def __repr__(self) -> str:
        queries = "" if self.queries is None else f", {brief(self.queries)}"
        return f"lengths({brief(self.keys)}{queries})"


@dataclass(frozen=True, eq=False, repr=False)
class segments(Mask):
    """Packed sequences: a query sees the keys that carry the same id.

    q_ids: (…, n_q) integers, the leading axes as the batch axes; k_ids: (…, n_k), or None for the same ids.
    """

    q_ids: Any
    k_ids: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "q_ids", integers(self.q_ids, "q_ids of segments"))
        keys = self.q_ids if self.k_ids is None else integers(self.k_ids, "k_ids of segments")
        object.__setattr__(self, "k_ids", keys)

    def of(self, tile: Tile) -> bool | Array:
        q = tile.batch(self.q_ids[..., tile.rows], tail=1)[:, :, None]
        k = tile.batch(self.k_ids[..., tile.keys], tail=1)[:, None, :]
        if q.min() > k.max() or q.max() < k.min():
            return False
        if q.min() == q.max() == k.min() == k.max():
            return True
        return np.asarray(q == k)

    def check(self, shape: Shape) -> None:
        for ids, size, name in ((self.q_ids, shape[-2], "n_q"), (self.k_ids, shape[-1], "n_k")):
            if ids.ndim == 0 or ids.shape[-1] != size:
                way_out = "; give k_ids too when n_q and n_k differ" if name == "n_k" else ""
                raise ShapeError(f"segments ids have shape {ids.shape}; expected (…, {name} = {size}){way_out}")
            check_batch(ids, shape, "segments ids", tail=1)

    def __repr__(self) -> str:
        return f"segments({brief(self.q_ids)}, {brief(self.k_ids)})"


@dataclass(frozen=True, eq=False, repr=False)
class dense(Mask):
    """A bool array that broadcasts to (…, n_heads, n_q, n_k); True = may attend."""

    array: Any
    name: str = field(default="mask", repr=False)

    def __post_init__(self) -> None:
        array = _arrays.view(self.array, self.name)
        if array.dtype != bool:
            raise DTypeError(
                f"{self.name} has dtype {array.dtype}; expected bool, True = may attend. "
                "Numbers to add to the score go into bias=; 0 and 1 become a mask with .astype(bool)"
            )
        object.__setattr__(self, "array", array)

    def of(self, tile: Tile) -> bool | Array:
        part = tile.cells(self.array)
        if part.all():
            return True
        return part if part.any() else False

    def check(self, shape: Shape) -> None:
        check_cells(self.array, shape, self.name)

    def __repr__(self) -> str:
        return f"dense({brief(self.array)})"


@dataclass(frozen=True, eq=False, repr=False)
class _And(Mask):
    a: Mask
    b: Mask

    def of(self, tile: Tile) -> bool | Array:
        a = self.a.of(tile)
        return a if a is False else _both(a, self.b.of(tile))

    def check(self, shape: Shape) -> None:
        self.a.check(shape)
        self.b.check(shape)

    def offsets(self, shape: Shape) -> Iterator[int | Array]:
        yield from self.a.offsets(shape)
        yield from self.b.offsets(shape)

    def __repr__(self) -> str:
        return f"{_bracket(self.a)} & {_bracket(self.b)}"


@dataclass(frozen=True, eq=False, repr=False)
class _Or(_And):
    def of(self, tile: Tile) -> bool | Array:
        a = self.a.of(tile)
        if a is True:
            return True
        b = self.b.of(tile)
        if a is False or b is True:
            return b
        return a if b is False else a | b

    def __repr__(self) -> str:
        return f"{_bracket(self.a)} | {_bracket(self.b)}"


@dataclass(frozen=True, eq=False, repr=False)
class _Not(Mask):
    a: Mask

    def of(self, tile: Tile) -> bool | Array:
        a = self.a.of(tile)
        return not a if isinstance(a, bool) else ~a

    def check(self, shape: Shape) -> None:
        self.a.check(shape)

    def offsets(self, shape: Shape) -> Iterator[int | Array]:
        return self.a.offsets(shape)

    def __repr__(self) -> str:
        return f"~{_bracket(self.a)}"


def _both(a: bool | Array, b: bool | Array) -> bool | Array:
    if a is True or b is False:
        return b
    return a if b is True or a is False else a & b


def _within(tile: Tile, first: Array | None, last: Array | None) -> bool | Array:
    """first <= j <= last for each query; None is open."""
    sees: bool | Array = True
    if last is not None:
        if tile.keys.start > last.max():
            return False
        if tile.keys.stop - 1 > last.min():
            sees = tile.j <= last
    if first is not None:
        if tile.keys.stop - 1 < first.min():
            return False
        if tile.keys.start < first.max():
            sees = _both(sees, tile.j >= first)
    return sees


def _below(at: Array, limit: Array, span: slice) -> bool | Array:
    """at < limit, where `at` are the indices of `span`."""
    if span.stop <= limit.min():
        return True
    return False if span.start >= limit.max() else np.asarray(at < limit)


def _bracket(mask: Mask) -> str:
    return f"({mask!r})" if isinstance(mask, _And) else repr(mask)
