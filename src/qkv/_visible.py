"""What a mask answers for a tile: True where all see all, False where nobody sees anything, else a bool array."""

import numpy as np

from qkv._tile import Tile
from qkv._typing import Array


def both(a: bool | Array, b: bool | Array) -> bool | Array:
    """a and b."""
    if a is True or b is False:
        return b
    return a if b is True or a is False else a & b


def within(tile: Tile, first: Array | None, last: Array | None) -> bool | Array:
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
            sees = both(sees, tile.j >= first)
    return sees


def below(at: Array, limit: Array, span: slice) -> bool | Array:
    """at < limit, where `at` are the indices of `span`."""
    if span.stop <= limit.min():
        return True
    return False if span.start >= limit.max() else np.asarray(at < limit)
