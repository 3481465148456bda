"""Measures that need the scores alone: one walk over the keys."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from qkv._rows import take_largest
from qkv._scan import Sum, Want
from qkv._tiles import Rows, Scores
from qkv._typing import Array
from qkv.measures._measure import Measure, Span, Tally
from qkv.measures._moments import Moments


@dataclass(frozen=True)
class lse(Measure):
    """What the softmax divides by, as a score: lse_i = log Σ_j exp(s_ij), the sink among the terms.

    (…, n_q), nats; −inf for a row that sees no key and has no sink. Rabe & Staats 2021 keep it to merge parts.
    """

    def start(self, span: Span) -> Tally:
        return _Lse(span)


class _Lse(Tally):
    def __init__(self, span: Span) -> None:
        self._span = span
        self._lse = np.full((span.heads, span.n_q), -np.inf, span.work)

    def rows(self, place: slice, rows: slice, sums: Rows) -> None:
        self._lse[place, rows] = sums.lse

    def asks(self) -> tuple[Want, ...]:
        return (Sum("lse"),)

    def take(self, heads: Array, *found: Any) -> None:
        (self._lse,) = found

    def result(self) -> Array:
        return self._span.fold(self._lse)


class MaxLogit(NamedTuple):
    """value: (…, n_q) nats, −inf for a row that sees no key. key: (…, n_q) index, −1 for such a row."""

    value: Any
    key: Any


@dataclass(frozen=True)
class max_logit(Measure):
    """The largest scaled product of each row over the keys it sees: max_j scale·q_i·k_j / temperature.

    MaxLogit(value, key), each (…, n_q); value in nats, before softcap and bias; ties go to the lower key. Its
    maximum over a head is what QK-clip watches in training (Kimi K2, 2025).
    """

    def start(self, span: Span) -> Tally:
        return _MaxLogit(span)


class _MaxLogit(Tally):
    def __init__(self, span: Span) -> None:
        self._span = span
        self._value = np.full((span.heads, span.n_q), -np.inf, span.work)
        self._key = np.full((span.heads, span.n_q), -1, np.int64)

    def scores(self, place: slice, scores: Scores) -> None:
        rows = scores.tile.rows
        take_largest(scores, self._value[place, rows], self._key[place, rows])

    def asks(self) -> tuple[Want, ...]:
        return Sum("max_score"), Sum("max_key")

    def take(self, heads: Array, *found: Any) -> None:
        self._value, self._key = found

    def result(self) -> MaxLogit:
        return MaxLogit(self._span.fold(self._value), self._span.fold(self._key))


class Spread(NamedTuple):
    """mean, deviation: (…, n_q) nats, of the scores of a row. overall: (…,) nats, the deviation in the whole head.

    0 for a row that sees no key, and for a head without any.
    """

    mean: Any
    deviation: Any
    overall: Any


@dataclass(frozen=True)
class spread(Measure):
    """How far the scores of a row lie apart: √(Σ_j (s_ij − mean_i)² / n_i) over the n_i keys it sees.

    Spread(mean, deviation, overall), nats, of the scaled products before softcap and bias (stage "raw"). overall is
    the same for all visible cells of a head, around their one mean. Independent q and k with entries of variance 1
    give products of variance d_k, so that 1/√d_k makes the spread 1 (Vaswani et al. 2017, section 3.2.1). That holds at
    the start of training; what a trained head has is measured here.
    """

    def start(self, span: Span) -> Tally:
        return _Spread(span)


class _Spread(Tally):
    def __init__(self, span: Span) -> None:
        self._span = span
        self._moments = Moments(span.heads, span.n_q)

    def scores(self, place: slice, scores: Scores) -> None:
        sees = np.ones((1, 1, 1), bool) if scores.visible is None else scores.visible
        sees = np.broadcast_to(sees, scores.raw.shape)
        self._moments.add(place, scores.tile.rows, sees.astype(np.float64), np.where(sees, scores.raw, 0))

    def result(self) -> Spread:
        fold, moments = self._span.fold, self._moments
        with np.errstate(all="ignore"):
            return Spread(fold(moments.mean), fold(np.sqrt(moments.variance)), fold(np.sqrt(moments.overall())))
