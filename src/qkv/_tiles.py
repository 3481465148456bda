"""The tile walk: exact attention in plain array code, never more than a tile of weights at a time.

Tiles lie on a fixed grid of the map, and a part of a tile is cut out of the whole one. So a weight is the same number,
bit for bit, whatever else was asked for beside it; and because the running maximum is kept and rescaled row by row, a
row depends on that row alone.
"""

from dataclasses import dataclass

import numpy as np

from qkv._problem import KEY_TILE, QUERY_TILE, Problem, visible
from qkv._tile import Tile
from qkv._typing import Array, DType, Shape


@dataclass(frozen=True)
class Scores:
    """The scores of a tile, in nats, each (heads, rows, keys).

    raw: scale · q·k / temperature. capped: after the softcap. biased: after the bias, −inf where hidden.
    visible: bool, broadcasting to the tile, or None where every query sees every key.
    """

    tile: Tile
    raw: Array
    capped: Array
    biased: Array
    visible: Array | None


@dataclass(frozen=True)
class Rows:
    """What the softmax of a row divides by, without its overflow: total · exp(peak).

    peak: the largest score of the row, the sink's among them, 0 for an empty row: (heads, rows, 1)
    total: Σ exp(score − peak); 0 for an empty row: (heads, rows, 1)
    """

    peak: Array
    total: Array

    @property
    def divisor(self) -> Array:
        """total, 1 for an empty row, whose weights are all 0: (heads, rows, 1)."""
        return np.where(self.total == 0, self.total.dtype.type(1), self.total)

    @property
    def lse(self) -> Array:
        """log Σ exp(score), nats, −inf for an empty row: (heads, rows)."""
        with np.errstate(divide="ignore"):
            return np.asarray((self.peak + np.log(self.total))[..., 0])


def read_scores(problem: Problem, heads: Array, rows: slice, keys: slice) -> Scores | None:
    """The scores of a tile or of a part of one; None where nobody may see anything."""
    tile = problem.tile(heads, rows, keys)
    bias = None if problem.bias is None else problem.bias.of(tile)
    sees = visible(problem, tile, bias)
    if sees is False:
        return None
    return _stages(problem, tile, bias, None if sees is True else sees)


def read_all_stages(problem: Problem, heads: Array, rows: slice, keys: slice) -> Scores:
    """As `read_scores`, hidden cells too."""
    tile = problem.tile(heads, rows, keys)
    bias = None if problem.bias is None else problem.bias.of(tile)
    sees = visible(problem, tile, bias)
    return _stages(problem, tile, bias, None if sees is True else np.asarray(sees))


def _stages(problem: Problem, tile: Tile, bias: Array | None, sees: Array | None) -> Scores:
    with np.errstate(all="ignore"):  # NaN and inf belong to the row that sees them; nobody is warned twice
        raw = _raw(problem, tile)
        capped = raw if problem.softcap is None else problem.softcap * np.tanh(raw / problem.softcap)
        biased = capped if bias is None else capped + _narrow(bias, problem)
        if sees is not None:
            biased = np.where(sees, biased, -np.inf)
    # in C order whatever the strides of mask, bias and cut: a sum in another order would have other bits
    return Scores(tile, raw, capped, np.ascontiguousarray(biased), sees)


def _raw(problem: Problem, tile: Tile) -> Array:
    """factor · score of the whole tile of the grid, cut down to the rows and keys wanted."""
    row0 = tile.rows.start // QUERY_TILE * QUERY_TILE
    key0 = tile.keys.start // KEY_TILE * KEY_TILE
    q = rows_of(problem.q, tile.lead, problem.n_heads, slice(row0, min(row0 + QUERY_TILE, tile.n_q)), problem.work)
    k = rows_of(problem.k, tile.lead, problem.n_heads, slice(key0, min(key0 + KEY_TILE, tile.n_k)), problem.work)
    whole = problem.score.of(q, k, problem.factor)
    return whole[:, tile.rows.start - row0 : tile.rows.stop - row0, tile.keys.start - key0 : tile.keys.stop - key0]


def rows_of(array: Array, lead: tuple[Array, ...], n_heads: int, span: slice, work: DType) -> Array:
    """Rows of q, k, v or x for some heads, in the work dtype: (…, heads, n, width) -> (heads here, span, width).

    A head axis shorter than n_heads is shared: head h reads row set h // (n_heads / its length).
    """
    part = array[..., span, :]
    own = array.shape[:-2]
    if own:
        shared = max(1, n_heads // max(1, own[-1]))
        at = (*lead[:-1], lead[-1] // shared)
        index = tuple(0 if size == 1 else i for size, i in zip(own, at[len(at) - len(own) :], strict=True))
        if len(lead[-1]) == 1:  # one head: a view, where an index array would copy
            index = tuple(int(np.ravel(i)[0]) for i in index)
        part = part[index]
    return np.ascontiguousarray(part if part.ndim == 3 else part[None], dtype=work)


def _narrow(bias: Array, problem: Problem) -> Array:
    """The bias in the work dtype; a finite number too large for it stays finite, so it hides nothing."""
    if bias.dtype == problem.work:
        return bias
    limit = np.finfo(problem.work).max
    with np.errstate(over="ignore"):
        narrow = bias.astype(problem.work)
    return np.where(np.isinf(narrow) & ~np.isinf(bias), np.copysign(limit, narrow), narrow)


def row_sums(problem: Problem, heads: Array, rows: slice) -> Rows:
    """What the softmax of each of these rows divides by: one walk over their keys."""
    running = Running(problem, heads, rows)
    for keys in problem.key_tiles:
        scores = read_scores(problem, heads, rows, keys)
        if scores is not None:
            running.add(scores)
    return running.rows()


class Running:
    """The online softmax of some rows: the largest score so far and the sum taken relative to it."""

    def __init__(self, problem: Problem, heads: Array, rows: slice) -> None:
        shape = (len(heads), rows.stop - rows.start, 1)
        self._sees = np.zeros(shape, dtype=bool)
        self._peak = np.full(shape, -np.inf, problem.work)
        if problem.sinks is not None:  # a sink is a score that is there from the start
            self._peak[:] = problem.sinks[heads % problem.n_heads].astype(problem.work)[:, None, None]
        self._total = np.where(np.isneginf(self._peak), self._peak.dtype.type(0), 1)

    def add(self, scores: Scores) -> tuple[Array, Array]:
        """Take a tile in. Returns exp(score − peak) and what older terms are to be multiplied by."""
        if scores.visible is None:
            self._sees[:] = True
        else:
            self._sees |= scores.visible.any(axis=-1, keepdims=True)
        with np.errstate(all="ignore"):
            peak = np.maximum(self._peak, scores.biased.max(axis=-1, keepdims=True))
            shift = np.where(np.isneginf(peak), 0, peak)
            correction = np.exp(self._peak - shift)  # older terms were taken relative to the older peak
            weight = np.exp(scores.biased - shift)
            self._total = self._total * correction + weight.sum(axis=-1, keepdims=True)
        self._peak = peak
        return weight, correction

    def rows(self) -> Rows:
        """The sums so far. A row that sees keys, all of score −inf, has no softmax: its total is NaN."""
        nothing = np.isneginf(self._peak)
        total = np.where(self._sees & nothing, np.nan, self._total)
        return Rows(np.where(nothing, 0, self._peak), total.astype(self._total.dtype, copy=False))


def weights_of(scores: Scores, rows: Rows) -> Array:
    """exp(score − peak) / total, exactly 0 where hidden: (heads, rows, keys)."""
    with np.errstate(all="ignore"):
        weight = np.exp(scores.biased - rows.peak)
        weight /= rows.divisor
    if scores.visible is not None and np.isnan(rows.total).any():
        weight = np.where(scores.visible, weight, 0)
    return weight


def average(weight: Array, visible: Array | None, v: Array) -> Array:
    """weight @ v, where a NaN or inf in a row of v counts only for the queries that see it.

    (heads, rows, keys), (heads, keys, d_v) -> (heads, rows, d_v).
    """
    finite = np.isfinite(v)
    with np.errstate(all="ignore"):
        if finite.all():
            return np.matmul(weight, v)
        out = np.matmul(weight, np.where(finite, v, 0))
        special = np.where(finite, 0, v)
        for j in np.flatnonzero(~finite.all(axis=(0, 2))):
            part = out + weight[..., j, None] * special[:, None, j, :]
            if visible is None:
                out = part
            else:
                sees = visible[..., j if visible.shape[-1] > 1 else 0, None]
                out = np.where(sees, part, out)
    return out


def apply(problem: Problem, lead: Array, v: Array) -> Array:
    """A @ v in one walk over the keys, for the heads of `lead` (flat indices of any shape).

    v: (…, n_k, d_v), its leading axes broadcasting to those of lead, the last maybe shared -> (*lead, n_q, d_v).
    """
    chosen = lead.reshape(-1)
    out = np.zeros((len(chosen), problem.shape[-2], v.shape[-1]), problem.dtype)
    for place, heads in problem.heads(chosen):
        at = _places(place, lead.shape)
        for rows in problem.row_tiles:
            running = Running(problem, heads, rows)
            sum_v = np.zeros((len(heads), rows.stop - rows.start, v.shape[-1]), problem.work)
            for keys in problem.key_tiles:
                scores = read_scores(problem, heads, rows, keys)
                if scores is not None:
                    weight, correction = running.add(scores)
                    values = rows_of(v, at, lead.shape[-1] if at else 1, keys, problem.work)
                    part = average(weight, scores.visible, values)
                    with np.errstate(all="ignore"):
                        sum_v = sum_v * correction + part
            with np.errstate(all="ignore"):
                out[place, rows] = sum_v / running.rows().divisor
    return out.reshape(lead.shape + out.shape[1:])


def apply_transposed(problem: Problem, lead: Array, x: Array) -> Array:
    """A.T @ x in two walks over the keys: (…, n_q, c), leading axes as for `apply` -> (*lead, n_k, c)."""
    chosen = lead.reshape(-1)
    out = np.zeros((len(chosen), problem.shape[-1], x.shape[-1]), problem.work)
    for place, heads in problem.heads(chosen):
        at = _places(place, lead.shape)
        for rows in problem.row_tiles:
            sums = row_sums(problem, heads, rows)
            part = rows_of(x, at, lead.shape[-1] if at else 1, rows, problem.work)
            for keys in problem.key_tiles:
                scores = read_scores(problem, heads, rows, keys)
                if scores is not None:
                    sees = None if scores.visible is None else scores.visible.swapaxes(-1, -2)
                    with np.errstate(all="ignore"):
                        out[place, keys] += average(weights_of(scores, sums).swapaxes(-1, -2), sees, part)
    with np.errstate(over="ignore"):
        out = out.astype(problem.dtype, copy=False)
    return out.reshape(lead.shape + out.shape[1:])


def _places(place: slice, shape: Shape) -> tuple[Array, ...]:
    """The positions of some of the chosen heads on the axes that they were chosen to: one array an axis."""
    return tuple(np.unravel_index(np.arange(place.start, place.stop), shape)) if shape else ()


class Watcher:
    """What a walk tells; a measure overrides what it needs. `place` is a slice of the chosen heads."""

    def scores(self, place: slice, scores: Scores) -> None:
        """A tile of scores, before the sums of its rows are known."""

    def rows(self, place: slice, rows: slice, sums: Rows) -> None:
        """The sums of some rows."""

    def weights(self, place: slice, scores: Scores, sums: Rows, weight: Array) -> None:
        """A tile of weights."""

    def wants(self, tile: Tile) -> bool:
        """Whether the weights of this tile are needed at all."""
        return True


def walk(problem: Problem, chosen: Array, watchers: list[Watcher]) -> None:
    """Walk the tiles once for the sums of the rows and, where a watcher needs weights, once more for those."""
    weighing = [watcher for watcher in watchers if type(watcher).weights is not Watcher.weights]
    scoring = [watcher for watcher in watchers if type(watcher).scores is not Watcher.scores]
    for place, heads in problem.heads(chosen):
        for rows in problem.row_tiles:
            running = Running(problem, heads, rows)
            for keys in problem.key_tiles:
                scores = read_scores(problem, heads, rows, keys)
                if scores is not None:
                    running.add(scores)
                    for watcher in scoring:
                        watcher.scores(place, scores)
            sums = running.rows()
            for watcher in watchers:
                watcher.rows(place, rows, sums)
            for keys in problem.key_tiles if weighing else ():
                tile = problem.tile(heads, rows, keys)
                wanting = [watcher for watcher in weighing if watcher.wants(tile)]
                scores = read_scores(problem, heads, rows, keys) if wanting else None
                if scores is not None:
                    weight = weights_of(scores, sums)
                    for watcher in wanting:
                        watcher.weights(place, scores, sums, weight)
