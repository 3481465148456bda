"""Where a query stands among the keys: query i at key position i + offset.

`offset=None` is n_k − n_q: the last query sees the last key. An int, or an integer array over the batch axes, says
otherwise: it is the key position of query 0.
"""

from typing import Any, TypeAlias

import numpy as np

from qkv._broadcast import brief, integers
from qkv._tile import Tile
from qkv._typing import Array, Shape

Offset: TypeAlias = int | Array | None


def as_offset(value: Any) -> Offset:
    """An alignment as None, an int, or an integer array over the batch axes."""
    if value is None:
        return None
    array = integers(value, "offset")
    return int(array) if array.ndim == 0 else array


def aligned(offset: Offset, tile: Tile) -> Array:
    """The key position of each query of the tile: (heads or 1, rows, 1)."""
    if offset is None:
        return tile.i + (tile.n_k - tile.n_q)
    if isinstance(offset, int):
        return tile.i + offset
    return tile.i + tile.batch(offset)[:, None, None]


def positions(offset: Offset, shape: Shape) -> Array:
    """The key position of every query of a map of this shape: (…batch axes of the offset, n_q)."""
    start = shape[-1] - shape[-2] if offset is None else offset
    if isinstance(start, int):
        return np.arange(start, start + shape[-2])
    return np.asarray(start[..., None] + np.arange(shape[-2]))


def agree(offsets: list[int | Array]) -> bool:
    """Whether all of these alignments are the same."""
    return all(np.array_equal(offsets[0], other) for other in offsets[1:])


def stated(offset: Offset) -> str:
    """How a repr says an alignment; nothing for the default."""
    if offset is None:
        return ""
    return f"offset={offset if isinstance(offset, int) else brief(offset)}"
