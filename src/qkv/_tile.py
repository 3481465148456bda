"""Where a tile lies in the map: which heads, which queries, which keys.

Masks and biases are asked for one tile at a time, so none of them is ever expanded to n_q × n_k.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from qkv._typing import Array, Shape


@lru_cache(maxsize=8)
def every_head(lead: Shape) -> Array:
    """The flat indices of all heads, in the shape of the axes before n_q; kept for a few shapes, for each map asks."""
    heads = np.arange(math.prod(lead)).reshape(lead)
    heads.flags.writeable = False
    return heads


@dataclass(frozen=True)
class Tile:
    """A rectangle of the map for a few heads at once.

    shape: of the whole map, (…, n_heads, n_q, n_k), or (n_q, n_k) for one head
    lead:  for each axis before n_q, the index of each of the tile's heads: (heads_here,)
    rows, keys: the queries and keys, as slices with both ends given
    """

    shape: Shape
    lead: tuple[Array, ...]
    rows: slice
    keys: slice

    @property
    def n_q(self) -> int:
        return self.shape[-2]

    @property
    def n_k(self) -> int:
        return self.shape[-1]

    @cached_property
    def i(self) -> Array:
        """The queries' indices, as a column: (1, rows, 1)."""
        return np.arange(self.rows.start, self.rows.stop)[None, :, None]

    @cached_property
    def j(self) -> Array:
        """The keys' indices, as a row: (1, 1, keys)."""
        return np.arange(self.keys.start, self.keys.stop)[None, None, :]

    @property
    def head(self) -> Array:
        """The index of each head on the head axis: (heads_here,); zeros for a map of one head."""
        return self.lead[-1] if self.lead else np.zeros(1, dtype=np.intp)

    def cells(self, array: Array) -> Array:
        """The tile's part of an array that broadcasts to the map: -> (heads_here or 1, rows or 1, keys or 1)."""
        array = array.reshape((1,) * max(0, 2 - array.ndim) + array.shape)
        rows = self.rows if array.shape[-2] != 1 else slice(None)
        keys = self.keys if array.shape[-1] != 1 else slice(None)
        return _pick(array[..., rows, keys], self.lead, 2)

    def batch(self, array: Array, tail: int = 0) -> Array:
        """An array over the batch axes, then `tail` axes of its own: -> (heads_here or 1, *tail)."""
        return _pick(array, self.lead[:-1], tail)


def _pick(array: Array, lead: tuple[Array, ...], tail: int) -> Array:
    """Index the axes before the last `tail`, which broadcast to those of `lead`: -> (heads_here or 1, *tail)."""
    own = array.shape[: array.ndim - tail]
    lead = lead[len(lead) - len(own) :]
    index = tuple(0 if size == 1 else at for size, at in zip(own, lead, strict=True))
    if any(isinstance(at, np.ndarray) for at in index):
        return np.asarray(array[index])
    return np.asarray(array[index])[None]
