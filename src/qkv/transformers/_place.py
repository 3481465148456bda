"""Where the mask of one forward lies: which queries over which keys."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from qkv._typing import Array, Shape


@dataclass(frozen=True)
class Place:
    """Query i of a forward stands at position q_offset + i of the sequence, key j at kv_offset + j."""

    batch: int
    n_q: int
    n_k: int
    q_offset: int
    kv_offset: int
    device: Any = "cpu"

    @property
    def shape(self) -> Shape:
        """Of the mask, which is one for all heads."""
        return (self.batch, 1, self.n_q, self.n_k)

    @property
    def offset(self) -> int | None:
        """The key index of query 0; None where the last query stands at the last key."""
        offset = self.q_offset - self.kv_offset
        return None if offset == self.n_k - self.n_q else offset

    @property
    def queries(self) -> Array:
        """The positions of the queries: (n_q,)."""
        return self.q_offset + np.arange(self.n_q)

    @property
    def keys(self) -> Array:
        """The positions of the keys: (n_k,)."""
        return self.kv_offset + np.arange(self.n_k)
