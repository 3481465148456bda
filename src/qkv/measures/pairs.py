"""Two maps beside each other."""

from dataclasses import dataclass

import numpy as np

from qkv._arrays import host
from qkv._broadcast import broadcasts, said
from qkv._matrix import Matrix
from qkv._problem import Problem
from qkv._tiles import Rows, Scores, read_scores, row_sums, weights_of
from qkv._typing import Array
from qkv.errors import DTypeError, ShapeError
from qkv.measures._measure import Measure, Span, Tally


@dataclass(frozen=True, eq=False)
class similar(Measure):
    """How differently two heads attend: Σ_j ½ (w_ij log(w_ij/m_ij) + w'_ij log(w'_ij/m_ij)), m_ij = ½ (w_ij + w'_ij).

    (…, n_q), nats: the Jensen–Shannon divergence of each row of the map and of `other`, w', from 0 for equal rows to
    log 2 for rows without a key in common. other: a map of as many queries and keys, whose axes before them broadcast
    to the map's, so that `A.measure(*(similar(head) for head in A))` is every head against every other. The tiles of
    both are walked side by side. Over the keys only: a row that sees no key is 0 from another such row, ½ log 2 from
    one that sees some. Lin 1991; between heads Clark et al. 2019.
    """

    other: Matrix

    def start(self, span: Span) -> Tally:
        other = self.other
        # one package: a public door to the problem of a map would be there for this reader alone
        if not isinstance(other, Matrix) or other._stage != "weight":  # noqa: SLF001
            raise DTypeError(f"other of similar is {said(other)}; expected an attention map, as attend gives it")
        if other.shape[-2:] != span.map_shape[-2:] or not broadcasts(other.shape[:-2], span.lead):
            raise ShapeError(
                f"other of similar has shape {other.shape}; expected a map whose shape broadcasts to "
                f"{span.lead + span.map_shape[-2:]}, with the same n_q and n_k"
            )
        heads = np.broadcast_to(other._lead, span.lead)  # noqa: SLF001
        return _Similar(other._problem, heads.reshape(-1), span)  # noqa: SLF001


class _Similar(Tally):
    """Follows the walk of one map in the other. Key tiles hidden in the first are made up for in their order."""

    def __init__(self, problem: Problem, heads: Array, span: Span) -> None:
        self._problem, self._heads, self._span = problem, heads, span
        self._divergence = np.zeros((span.heads, span.n_q), span.work)
        self._ahead: list[slice] = []

    def rows(self, place: slice, rows: slice, sums: Rows) -> None:
        self._catch_up(self._span.n_k)
        self._place, self._rows = place, rows
        self._sums = row_sums(self._problem, self._heads[place], rows)
        self._ahead = list(self._problem.key_tiles)

    def weights(self, place: slice, scores: Scores, sums: Rows, weight: Array) -> None:
        self._catch_up(scores.tile.keys.start)
        self._compare(self._ahead.pop(0), weight)

    def _catch_up(self, key: int) -> None:
        """Compare the tiles before this key in which the first map shows nothing."""
        while self._ahead and self._ahead[0].start < key:
            self._compare(self._ahead.pop(0), None)

    def _compare(self, keys: slice, weight: Array | None) -> None:
        scores = read_scores(self._problem, self._heads[self._place], self._rows, keys)
        if scores is None and weight is None:
            return
        nothing = np.zeros((1, 1, 1), self._span.work)
        here = nothing if weight is None else weight
        there = nothing if scores is None else host(weights_of(scores, self._sums))
        self._divergence[self._place, self._rows] += _divergence(here, there)

    def result(self) -> Array:
        self._catch_up(self._span.n_k)
        return self._span.fold(np.minimum(self._divergence, np.log(2)))


def _divergence(one: Array, other: Array) -> Array:
    """Σ_j ½ (p log(p/m) + q log(q/m)) over a tile: (heads, rows).

    As ½ m ((1 + t) log(1 + t) + (1 − t) log(1 − t)), t = |p − q| / (p + q), and that in the form in which nothing
    cancels: exactly 0 for equal weights, never below, the same to the bit with the two exchanged.
    """
    with np.errstate(all="ignore"):
        both = one + other
        t = np.abs(one - other) / np.where(both == 0, 1, both)
        log = np.where(t < 0.5, np.log1p(-t * t), np.log((1 - t) * (1 + t)))
        bend = np.where(t == 1, 2 * np.log(2), log + 2 * t * np.arctanh(t))
        return (both * bend).sum(axis=-1) / 4
