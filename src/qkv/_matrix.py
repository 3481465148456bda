"""A matrix that is not stored: its shape, NumPy's indexing, and cells that are computed when asked for."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from qkv import _index
from qkv._cells import Stage
from qkv._problem import Problem
from qkv._read import rectangle, stage_dtype
from qkv._typing import Array, Shape


class Matrix:
    """What a map and its scores share: the cells of a problem at one stage, for some of its heads (flat indices)."""

    # NumPy leaves `array @ A` to __rmatmul__ instead of looping over the map's rows
    __array_ufunc__ = None

    def __init__(self, problem: Problem, lead: Array, stage: Stage) -> None:
        self._problem, self._lead, self._stage = problem, lead, stage

    @property
    def shape(self) -> Shape:
        """(…, n_heads, n_q, n_k), or (n_q, n_k) for one head."""
        return self._lead.shape + self._problem.shape[-2:]

    @property
    def ndim(self) -> int:
        return self._lead.ndim + 2

    @property
    def size(self) -> int:
        """Number of cells."""
        return math.prod(self.shape)

    @property
    def dtype(self) -> Any:
        """The dtype of the cells, as the caller's library names it."""
        return stage_dtype(self._problem, self._stage)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Any:
        """NumPy's indexing. An index on the leading axes alone gives the same kind of object, lazily.

        One that names n_q or n_k, be it with a full slice, gives an array; above 1 GiB it raises DenseError.
        """
        entries = _index.expand(index, self.ndim)
        leading = _index.leading_only(entries, self.ndim)
        if leading is not None:
            return type(self)(self._problem, np.asarray(self._lead[leading]), self._stage)
        return self._cells(_index.get(self._problem, self._stage, self._lead, entries))

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("the cells of a map are computed when asked for; a copy can't be avoided")
        _index.refuse_large(self.size, self._problem, self._stage, _index.WAY_OUT)
        cells = self._dense()
        return cells if dtype is None else cells.astype(dtype, copy=False)

    def dense(self) -> Any:
        """Every cell as an array of the caller's library: O(n_q · n_k) memory, for any size that fits."""
        return self._cells(self._dense())

    def _dense(self) -> Array:
        n_q, n_k = self._problem.shape[-2:]
        cells = rectangle(self._problem, self._stage, np.ravel(self._lead), np.arange(n_q), np.arange(n_k))
        return cells.reshape(self.shape)

    def _cells(self, cells: Array) -> Any:
        """Cells computed on the host as the caller's library wants them."""
        return self._problem.library.give(cells, self.dtype)


class Scores(Matrix):
    """The scores of a map at one stage, in nats: indexes like the map, and is not stored either."""

    def __repr__(self) -> str:
        return f"Scores(stage={self._stage!r}, shape={self.shape}, {self._problem.work})"
