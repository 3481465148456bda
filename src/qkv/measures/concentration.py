"""How the weight of a query is spread over the keys."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from qkv._broadcast import count, real
from qkv._rows import surprise
from qkv._scan import Row, Sum, Top as TopOfKeys, Visible, Want
from qkv._tiles import Rows, Scores
from qkv._typing import Array
from qkv.errors import ArgumentError
from qkv.measures._measure import Measure, RowMeasure, Span, Tally, visible_count


@dataclass(frozen=True)
class entropy(RowMeasure):
    """How undecided a query is: H_i = Σ_j w_ij (lse_i − s_ij).

    (…, n_q), nats, or bits with unit="bits"; with normalised=True a share of log(visible keys), which no unit
    changes, 0 where fewer than two keys are visible. With a sink the sum is over the keys only, and the weights are
    not renormalised. In this form nothing cancels and no log of a weight is taken. Used on heads by Vig & Belinkov
    2019 and Clark et al. 2019; its collapse in training: Zhai et al. 2023.
    """

    unit: str = "nats"
    normalised: bool = False
    n_parts: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if self.unit not in ("nats", "bits"):
            raise ArgumentError(f'unit is {self.unit!r}; expected "nats" or "bits"')

    def parts(self, scores: Scores, sums: Rows, weight: Array, span: Span) -> tuple[Array, ...]:
        return surprise(scores, sums, weight), visible_count(scores)

    def asks(self, span: Span) -> tuple[Want, ...]:
        return Sum("entropy"), Visible("rows")

    def finish(self, *joined: Array) -> Array:
        nats, visible = joined
        if self.normalised:
            return np.where(visible < 2, nats * 0, nats / np.log(np.maximum(visible, 2)))
        return nats / np.log(2) if self.unit == "bits" else nats


@dataclass(frozen=True)
class effective_keys(RowMeasure):
    """How many keys the weight is spread over: exp(H_i) for order 1, 1 / Σ_j w_ij² for order 2.

    (…, n_q), keys; 0 for a row that sees none. The Hill numbers (Hill 1973); order 2 is the participation ratio.
    """

    order: int = 1
    n_parts: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if self.order not in (1, 2):
            raise ArgumentError(f"order is {self.order!r}; expected 1 or 2")

    def parts(self, scores: Scores, sums: Rows, weight: Array, span: Span) -> tuple[Array, ...]:
        spread = surprise(scores, sums, weight) if self.order == 1 else np.square(weight).sum(axis=-1)
        return spread, weight.sum(axis=-1)

    def asks(self, span: Span) -> tuple[Want, ...]:
        return Sum("entropy") if self.order == 1 else Row("squares"), Row("mass")

    def finish(self, *joined: Array) -> Array:
        spread, mass = joined
        return np.where(mass == 0, 0, np.exp(spread) if self.order == 1 else 1 / spread)


@dataclass(frozen=True)
class peak(RowMeasure):
    """The largest weight of each row: max_j w_ij. Its mean is a head's "confidence" (Voita et al. 2019).

    (…, n_q), a share.
    """

    join: ClassVar[np.ufunc] = np.maximum

    def parts(self, scores: Scores, sums: Rows, weight: Array, span: Span) -> tuple[Array, ...]:
        return (weight.max(axis=-1),)

    def asks(self, span: Span) -> tuple[Want, ...]:
        return (Row("largest"),)


class Saturation(NamedTuple):
    """slope: (…, n_q), how much the weights of a row move with its scores. share: (…,), of the rows that see a key."""

    slope: Any
    share: Any


@dataclass(frozen=True)
class saturation(Measure):
    """How deaf a row has become to its scores: Σ_j w_ij (1 − w_ij), and the share of rows with a peak above threshold.

    Saturation(slope, share). slope: (…, n_q), a share, the trace of the softmax's Jacobian: 1 − 1/n for n equal
    weights, 0 where one key has it all and no gradient comes through. share: (…,), of the rows that see a key; one
    that sees a single key counts as saturated, as it is. The reason for 1/√d_k in Vaswani et al. 2017, section 3.2.1.
    """

    threshold: float = 0.99

    def __post_init__(self) -> None:
        if not 0 <= real(self.threshold, "threshold of saturation") <= 1:
            raise ArgumentError(f"threshold of saturation is {self.threshold}; expected a weight, from 0 to 1")

    def start(self, span: Span) -> Tally:
        return _Saturation(self.threshold, span)


class _Saturation(Tally):
    def __init__(self, threshold: float, span: Span) -> None:
        self._threshold, self._span = threshold, span
        self._slope, self._peak = np.zeros((2, span.heads, span.n_q), span.work)
        self._sees = np.zeros((span.heads, span.n_q), dtype=bool)

    def weights(self, place: slice, scores: Scores, sums: Rows, weight: Array) -> None:
        rows = scores.tile.rows
        self._slope[place, rows] += (weight * (1 - weight)).sum(axis=-1)
        self._peak[place, rows] = np.maximum(self._peak[place, rows], weight.max(axis=-1))
        self._sees[place, rows] |= visible_count(scores) > 0

    def asks(self) -> tuple[Want, ...]:
        return Row("slope"), Row("largest"), Visible("rows")

    def take(self, heads: Array, *found: Any) -> None:
        self._slope, self._peak, visible = found
        self._sees = visible > 0

    def result(self) -> Saturation:
        above = np.where(np.isnan(self._peak), np.nan, self._peak > self._threshold).astype(np.float64)
        share = np.where(self._sees, above, 0).sum(axis=-1) / np.maximum(self._sees.sum(axis=-1), 1)
        return Saturation(self._span.fold(self._slope), self._span.fold(share))


class Top(NamedTuple):
    """weight: (…, n_q, k) shares, largest first. key: (…, n_q, k) indices. rest: (…, n_q), the other keys' share.

    Past the visible keys weight is 0 and key is −1. A row with NaN has weight NaN, key −1 and rest NaN.
    """

    weight: Any
    key: Any
    rest: Any


@dataclass(frozen=True)
class top(Measure):
    """The k largest weights of each row and their keys, largest first; ties go to the lower key.

    Top(weight, key, rest): weight w_ij and rest = Σ_j w_ij − Σ of the k, shares; no source needed. Always k
    columns: past the visible keys weight is 0 and key −1. The first k of top(k + 1) are top(k).
    """

    k: int

    def __post_init__(self) -> None:
        count(self.k, "k of top", least=1)

    def start(self, span: Span) -> Tally:
        span.refuse_large(2 * span.heads * span.n_q * self.k, "ask for fewer keys")
        return _Top(self.k, span)


HIDDEN = -1.0  # below every weight, so that a visible key of weight 0 comes before a hidden one


class _Top(Tally):
    def __init__(self, k: int, span: Span) -> None:
        self._k, self._span = k, span
        self._sum = np.zeros((span.heads, span.n_q), span.work)

    @cached_property
    def _lists(self) -> tuple[Array, Array]:
        """Weights and keys, (heads, n_q, k): made for the walk alone, for a kernel brings its own."""
        shape = (self._span.heads, self._span.n_q, self._k)
        return np.full(shape, HIDDEN, self._span.work), np.full(shape, -1, np.int64)

    def rows(self, place: slice, rows: slice, sums: Rows) -> None:
        undefined = np.isnan(sums.total[..., 0])
        self._sum[place, rows][undefined] = np.nan

    def weights(self, place: slice, scores: Scores, sums: Rows, weight: Array) -> None:
        rows = scores.tile.rows
        total = self._sum[place, rows]
        total += weight.sum(axis=-1)
        seen = weight if scores.visible is None else np.where(scores.visible, weight, HIDDEN)
        best, best_key = (each[place, rows] for each in self._lists)
        # keys come in order, so a tie with what is there already changes nothing
        better = seen.max(axis=-1) > best[..., -1]
        new = seen[better]
        at = largest(new, self._k)
        both = np.concatenate([best[better], np.take_along_axis(new, at, axis=-1)], axis=-1)
        keys = np.concatenate([best_key[better], at + scores.tile.keys.start], axis=-1)
        order = np.argsort(-both, axis=-1, kind="stable")[:, : self._k]
        best[better] = np.take_along_axis(both, order, axis=-1)
        best_key[better] = np.take_along_axis(keys, order, axis=-1)

    def asks(self) -> tuple[Want, ...]:
        return TopOfKeys(self._k), Row("mass")

    def take(self, heads: Array, *found: Any) -> None:
        self._lists, self._sum = found

    def result(self) -> Top:
        weight, key = self._lists
        nothing = weight == HIDDEN
        weight, key = np.where(nothing, 0, weight), np.where(nothing, -1, key)
        undefined = np.isnan(self._sum)
        weight[undefined], key[undefined] = np.nan, -1
        rest = np.maximum(self._sum - weight.sum(axis=-1), 0)
        return Top(self._span.fold(weight), self._span.fold(key), self._span.fold(rest))


def largest(rows: Array, k: int) -> Array:
    """Where the k largest of each row are, ascending; ties go to the lower place: (n, m) -> (n, min(k, m))."""
    n, m = rows.shape
    if m <= k:
        return np.broadcast_to(np.arange(m), (n, m))
    edge = np.partition(rows, m - k, axis=-1)[:, m - k, None]
    above, tied = rows > edge, rows == edge
    room = k - above.sum(axis=-1, keepdims=True)
    taken = above | (tied & (tied.cumsum(axis=-1) <= room))
    return np.nonzero(taken)[1].reshape(n, k)
