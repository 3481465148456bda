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
from qkv._alignment import aligned, as_offset, positions, stated
from qkv._broadcast import brief, check_batch, check_cells, count, integers
from qkv._tile import Tile
from qkv._typing import Array, Shape
from qkv._visible import below, both, within
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

    @property
    def has_spans(self) -> bool:
        """Whether each query sees one span of keys, `spans`."""
        return type(self).spans is not Mask.spans

    def spans(self, shape: Shape) -> tuple[Array, Array]:
        """The first key that each query sees and the one behind the last, each (…batch axes, n_q)."""
        raise NotImplementedError

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


def parts(mask: Mask | None) -> Iterator[Mask]:
    """The masks that are joined by & alone."""
    if isinstance(mask, _And) and not isinstance(mask, _Or):
        yield from parts(mask.a)
        yield from parts(mask.b)
    elif mask is not None:
        yield mask


def as_mask(value: Any, name: str = "mask") -> Mask:
    """`value` itself when it is a Mask, else `dense(value)`."""
    return value if isinstance(value, Mask) else dense(value, name)


def _keys(at: Array, shape: Shape) -> Array:
    """Positions as keys that there are, 0 … n_k: np.clip at a third of its time."""
    return np.minimum(np.maximum(at, 0), shape[-1])


class _Aligned(Mask):
    """A mask that counts from the query's own position."""

    offset: Any

    def check(self, shape: Shape) -> None:
        check_batch(self.offset, shape, f"offset of {type(self).__name__}")

    def offsets(self, shape: Shape) -> Iterator[int | Array]:
        yield shape[-1] - shape[-2] if self.offset is None else self.offset


@dataclass(frozen=True, eq=False, repr=False)
class causal(_Aligned):
    """A query sees the keys up to its own position, j <= i + offset.

    offset: the key position of query 0; None is n_k − n_q. An int, or integers over the batch axes.
    """

    offset: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "offset", as_offset(self.offset))

    def of(self, tile: Tile) -> bool | Array:
        return within(tile, None, aligned(self.offset, tile))

    def spans(self, shape: Shape) -> tuple[Array, Array]:
        last = _keys(positions(self.offset, shape) + 1, shape)
        return np.zeros(last.shape, np.int64), last

    def __repr__(self) -> str:
        return f"causal({stated(self.offset)})"


@dataclass(frozen=True, eq=False, repr=False)
class window(_Aligned):
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
        return within(tile, first, last)

    def spans(self, shape: Shape) -> tuple[Array, Array]:
        at = positions(self.offset, shape)
        first = np.zeros_like(at) if self.left is None else _keys(at - self.left, shape)
        last = np.full_like(at, shape[-1]) if self.right is None else _keys(at + self.right + 1, shape)
        return first, last

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
        sees = below(tile.j, tile.batch(self.keys)[:, None, None], tile.keys)
        if self.queries is None or sees is False:
            return sees
        return both(sees, below(tile.i, tile.batch(self.queries)[:, None, None], tile.rows))

    def spans(self, shape: Shape) -> tuple[Array, Array]:
        last = np.broadcast_to(self.keys[..., None], (*self.keys.shape, shape[-2]))
        if self.queries is not None:
            last = np.where(np.arange(shape[-2]) < self.queries[..., None], last, 0)
        return np.zeros_like(last), last

    def check(self, shape: Shape) -> None:
        for each, size, name in ((self.keys, shape[-1], "n_k"), (self.queries, shape[-2], "n_q")):
            if each is not None:
                check_batch(each, shape, "lengths")
                low, high = (each.min(), each.max()) if each.size else (0, 0)
                if low < 0 or high > size:
                    raise ArgumentError(f"lengths has values from {low} to {high}; expected 0 to {name} = {size}")

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

    @property
    def has_spans(self) -> bool:
        # in order, as packed sequences are, equal ids stand together
        return self.k_ids.ndim == 1 and bool((self.k_ids[1:] >= self.k_ids[:-1]).all())

    def spans(self, shape: Shape) -> tuple[Array, Array]:
        return np.searchsorted(self.k_ids, self.q_ids, "left"), np.searchsorted(self.k_ids, self.q_ids, "right")

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
        return a if a is False else both(a, self.b.of(tile))

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


def _bracket(mask: Mask) -> str:
    return f"({mask!r})" if isinstance(mask, _And) else repr(mask)
