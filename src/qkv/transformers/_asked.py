"""A mask function of transformers that nobody can read, asked for one tile at a time."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from qkv import masks
from qkv._tile import Tile
from qkv._typing import Array, Shape
from qkv.errors import ShapeError
from qkv.transformers._place import Place


@dataclass(frozen=True, eq=False, repr=False)
class Asked(masks.Mask):
    """The cells where `function(batch, head, query, key)`, of index tensors, is true.

    vmap: whether the function takes single indices only, as a user's own may.
    """

    function: Callable[..., Any]
    place: Place
    vmap: bool = False

    def of(self, tile: Tile) -> bool | Array:
        at = tile.lead[0] if self.place.batch > 1 else np.zeros_like(tile.lead[0])
        batch, which = np.unique(at, return_inverse=True)
        indices = [batch, np.zeros(1, int), self.place.q_offset + tile.i.ravel(), self.place.kv_offset + tile.j.ravel()]
        function, axes = (_for_each(self.function), indices) if self.vmap else (self.function, np.ix_(*indices))
        sees = function(*(torch.as_tensor(axis, device=self.place.device) for axis in axes))
        whole = sees.expand([len(index) for index in indices]).numpy(force=True)[which, 0]
        if whole.all():
            return True
        return whole if whole.any() else False

    def check(self, shape: Shape) -> None:
        own = self.place.shape
        if len(shape) != 4 or shape[-2:] != own[-2:] or own[0] not in (1, shape[0]):
            raise ShapeError(f"the mask of the model has shape {own}; expected one that broadcasts to {shape}")

    def __repr__(self) -> str:
        return f"asked({getattr(self.function, '__qualname__', self.function)})"


def _for_each(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of four single indices as one of four index vectors: -> (batch, heads, n_q, n_k)."""
    for axis in (3, 2, 1, 0):
        function = torch.vmap(function, in_dims=tuple(0 if own == axis else None for own in range(4)))
    return function
