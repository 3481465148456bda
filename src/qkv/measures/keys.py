"""Where the weight goes, seen from the keys."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from qkv import _arrays
from qkv._broadcast import integers
from qkv._tile import Tile
from qkv._tiles import Rows, Scores
from qkv._typing import Array
from qkv.errors import ArgumentError, DTypeError, ShapeError
from qkv.measures._measure import Measure, Span, Tally


@dataclass(frozen=True)
class received(Measure):
    """The weight that each key receives, its column mass: c_j = Σ_i w_ij.

    (…, n_k), in queries; with per_visible=True divided by the number of queries that may see the key, a share, 0
    where none may. Keys of large mass are the heavy hitters of H2O (Zhang et al. 2023).
    """

    per_visible: bool = False

    def start(self, span: Span) -> Tally:
        return _Received(self.per_visible, span)


class _Received(Tally):
    def __init__(self, per_visible: bool, span: Span) -> None:
        self._per_visible, self._span = per_visible, span
        # float64: thousands of rows add up here, and the vector is small
        self._sum = np.zeros((span.heads, span.n_k), np.float64)
        self._queries = np.zeros((span.heads, span.n_k), np.int64)

    def weights(self, place: slice, scores: Scores, sums: Rows, weight: Array) -> None:
        rows, keys = scores.tile.rows, scores.tile.keys
        self._sum[place, keys] += weight.sum(axis=-2)
        if self._per_visible:
            n = rows.stop - rows.start
            sees = scores.visible
            self._queries[place, keys] += n if sees is None else sees.sum(axis=-2) * (n if sees.shape[-2] == 1 else 1)

    def result(self) -> Array:
        if self._per_visible:
            return self._span.fold(self._sum / np.maximum(self._queries, 1))
        return self._span.fold(self._sum)


class Mass(NamedTuple):
    """label: (n_labels,) the labels, ascending. share: (…, n_q, n_labels) the weight on the keys of each."""

    label: Any
    share: Any


@dataclass(frozen=True, eq=False)
class mass(Measure):
    """The weight on some keys: Σ_{j in keys} w_ij, a share.

    keys: indices, a slice, or a bool array (n_k,) -> (…, n_q). Or labels: (n_k,) integers, one a key ->
    Mass(label, share), share (…, n_q, n_labels). On the first keys it is the sink mass of StreamingLLM (Xiao et al.
    2023); by segment, the lookback ratio (Chuang et al. 2024).
    """

    keys: Any = None
    labels: Any = None

    def start(self, span: Span) -> Tally:
        if (self.keys is None) == (self.labels is None):
            raise ArgumentError("mass takes either keys= or labels=, and one of them")
        if self.labels is None:
            return _Mass(_chosen(self.keys, span.n_k)[:, None], None, span)
        labels = integers(self.labels, "labels")
        if labels.shape != (span.n_k,):
            raise ShapeError(f"labels have shape {labels.shape}; expected (n_k,) = ({span.n_k},), one a key")
        label = np.unique(labels)
        return _Mass(labels[:, None] == label, label, span)


def _chosen(keys: Any, n_k: int) -> Array:
    """Which keys are meant: bool (n_k,)."""
    chosen = np.zeros(n_k, dtype=bool)
    index = keys if isinstance(keys, slice) else _arrays.view(keys, "keys")
    if isinstance(index, np.ndarray) and index.dtype.kind not in "iub" and index.size:
        raise DTypeError(f"keys have dtype {index.dtype}; expected indices, a slice or a bool array")
    if isinstance(index, np.ndarray) and not index.size:
        return chosen
    try:
        chosen[index] = True
    except IndexError as error:
        raise ArgumentError(f"keys do not fit {n_k} keys: {error}") from None
    return chosen


class _Mass(Tally):
    def __init__(self, member: Array, label: Array | None, span: Span) -> None:
        self._member, self._label, self._span = member, label, span
        self._share = np.zeros((span.heads, span.n_q, member.shape[1]), span.work)

    def wants(self, tile: Tile) -> bool:
        return bool(self._member[tile.keys].any())

    def weights(self, place: slice, scores: Scores, sums: Rows, weight: Array) -> None:
        member = self._member[scores.tile.keys].astype(weight.dtype)
        self._share[place, scores.tile.rows] += np.matmul(weight, member)

    def result(self) -> Any:
        share = self._span.fold(self._share)
        return share[..., 0] if self._label is None else Mass(self._label, share)
