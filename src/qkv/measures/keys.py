"""Where the weight goes, seen from the keys."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from qkv import _arrays
from qkv._broadcast import broadcasts, integers
from qkv._problem import KEY_TILE, spans
from qkv._scan import Labels, Received, Visible, Want
from qkv._tile import Tile
from qkv._tiles import Rows, Scores
from qkv._typing import Array, DType
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

    def asks(self) -> tuple[Want, ...]:
        return (Received(), Visible("keys")) if self._per_visible else (Received(),)

    def take(self, heads: Array, *found: Any) -> None:
        self._sum, *queries = found
        self._queries = queries[0] if queries else self._queries

    def result(self) -> Array:
        if self._per_visible:
            return self._span.fold(self._sum / np.maximum(self._queries, 1))
        return self._span.fold(self._sum)


@dataclass(frozen=True, eq=False)
class contribution(Measure):
    """How much each key adds to the output: Σ_i w_ij ‖v_j W_O‖, the weight it receives times what that weight carries.

    (…, n_k), in queries times the length of an output vector; 0 for a key that no query sees. v: (…, n_kv_heads, n_k,
    d_v) of the whole map, with b_v in it; (n_k, d_v) for a map of one head. w_o: (n_heads · d_v, d_model), used as
    x @ w_o; a head's part is its d_v rows. A key of large weight and short value, as the first one often is, adds
    little: Kobayashi et al. 2020.
    """

    v: Any
    w_o: Any

    def __post_init__(self) -> None:
        for name in ("v", "w_o"):
            object.__setattr__(self, name, _arrays.floating(getattr(self, name), f"{name} of contribution"))

    def start(self, span: Span) -> Tally:
        own, lead = self.v.shape, span.map_shape[:-2]
        heads, kv_heads = (lead[-1], own[-3:-2]) if lead else (1, (1,))
        if len(own) != len(span.map_shape) or own[-2] != span.n_k or not broadcasts(own[:-3], lead[:-1]):
            axes = "(…, n_kv_heads, n_k, d_v)" if lead else "(n_k, d_v)"
            raise ShapeError(
                f"v of contribution has shape {own}; expected {axes} for the whole map, of shape {span.map_shape}"
            )
        if heads % max(1, kv_heads[0]) or (heads and not kv_heads[0]):
            raise ShapeError(f"v of contribution has {kv_heads[0]} heads; expected a number that divides {heads}")
        if self.w_o.ndim != 2 or self.w_o.shape[0] != heads * own[-1]:
            raise ShapeError(
                f"w_o of contribution has shape {self.w_o.shape}; expected (n_heads · d_v, d_model), "
                f"with n_heads · d_v = {heads} · {own[-1]}"
            )
        return _Contribution(self.v, self.w_o, span)


class _Contribution(_Received):
    def __init__(self, v: Array, w_o: Array, span: Span) -> None:
        super().__init__(True, span)
        lead = span.map_shape[:-2]
        self._heads = lead[-1] if lead else 1
        self._v, self._w_o = np.broadcast_to(v, (*lead[:-1], *v.shape[-3:])), w_o
        self._lead = np.zeros((len(lead), span.heads), np.intp)

    def weights(self, place: slice, scores: Scores, sums: Rows, weight: Array) -> None:
        super().weights(place, scores, sums, weight)
        for axis, index in zip(self._lead, scores.tile.lead, strict=True):
            axis[place] = index

    def take(self, heads: Array, *found: Any) -> None:
        super().take(heads, *found)
        self._lead[:] = np.unravel_index(heads, self._span.map_shape[:-2]) if len(self._lead) else 0

    def result(self) -> Array:
        added = np.zeros_like(self._sum)
        for at in np.flatnonzero(self._queries.any(axis=-1)):
            with np.errstate(all="ignore"):
                product = self._sum[at] * self._lengths(self._lead[:, at])
            added[at] = np.where(self._queries[at] > 0, product, 0)
        return self._span.fold(added)

    def _lengths(self, lead: Array) -> Array:
        """‖v_j W_O‖ for one head, a tile of keys at a time: (n_k,)."""
        v, head = self._v, 0
        if len(lead):
            head = int(lead[-1])
            v = v[(*lead[:-1], head // (self._heads // v.shape[-3]))]
        w_o = self._w_o[head * v.shape[-1] : (head + 1) * v.shape[-1]]
        return value_norms(v, w_o, self._span.work)


def value_norms(v: Array, w_o: Array, work: DType) -> Array:
    """‖v_j W_O‖ for one head's rows of W_O, a tile of keys at a time: (…, n_k, d_v), (d_v, d_model) -> (…, n_k)."""
    norms, w_o = np.empty(v.shape[:-1], work), w_o.astype(work, copy=False)
    for keys in spans(v.shape[-2], KEY_TILE):
        norms[..., keys] = np.linalg.norm(v[..., keys, :].astype(work, copy=False) @ w_o, axis=-1)
    return norms


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
            return _MassOfKeys(_chosen(self.keys, span.n_k), span)
        labels = integers(self.labels, "labels")
        if labels.shape != (span.n_k,):
            raise ShapeError(f"labels have shape {labels.shape}; expected (n_k,) = ({span.n_k},), one a key")
        label, code = np.unique(labels, return_inverse=True)
        span.refuse_large(span.heads * span.n_q * len(label), "give the keys fewer labels")
        return _MassByLabel(label, code, span)


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


class _MassOfKeys(Tally):
    def __init__(self, chosen: Array, span: Span) -> None:
        self._chosen, self._span = chosen, span
        self._share = np.zeros((span.heads, span.n_q), span.work)

    def wants(self, tile: Tile) -> bool:
        return bool(self._chosen[tile.keys].any())

    def weights(self, place: slice, scores: Scores, sums: Rows, weight: Array) -> None:
        self._share[place, scores.tile.rows] += weight[..., self._chosen[scores.tile.keys]].sum(axis=-1)

    def asks(self) -> tuple[Want, ...]:
        return (Labels(np.where(self._chosen, 0, -1), 1),)

    def take(self, heads: Array, *found: Any) -> None:
        self._share = found[0][..., 0]

    def result(self) -> Array:
        return self._span.fold(self._share)


class _MassByLabel(Tally):
    def __init__(self, label: Array, code: Array, span: Span) -> None:
        self._label, self._code, self._span = label, code, span
        self._share = np.zeros((span.heads, span.n_q, len(label)), span.work)

    def weights(self, place: slice, scores: Scores, sums: Rows, weight: Array) -> None:
        present, here = np.unique(self._code[scores.tile.keys], return_inverse=True)
        member = here[:, None] == np.arange(len(present))
        lost = np.isnan(weight).any(axis=-1)
        share = weight @ member.astype(weight.dtype)
        for at, label in (
            enumerate(member.T) if lost.any() else ()
        ):  # a product spreads NaN to labels that do not have it
            share[lost, at] = weight[lost][:, label].sum(axis=-1)
        self._share[place, scores.tile.rows, present] += share

    def asks(self) -> tuple[Want, ...]:
        return (Labels(self._code, len(self._label)),)

    def take(self, heads: Array, *found: Any) -> None:
        (self._share,) = found

    def result(self) -> Mass:
        return Mass(self._label, self._span.fold(self._share))
