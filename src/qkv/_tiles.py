"""The tile walk: exact attention in plain array code, never more than a tile of weights at a time.

Tiles lie on a fixed grid of the map, and a part of a tile is cut out of the whole one. So a weight is the same number,
bit for bit, whatever else was asked for beside it; and because the running maximum is kept and rescaled row by row, a
row depends on that row alone.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from qkv._arrays import NUMPY, Library, host, in_order
from qkv._problem import KEY_TILE, QUERY_TILE, Problem, visible
from qkv._progress import Work
from qkv._tile import Tile
from qkv._typing import Array, Shape


@dataclass(frozen=True)
class Scores:
    """The scores of a tile, in nats, each (heads, rows, keys), in the library of q.

    raw: scale · q·k / temperature. capped: after the softcap. biased: after the bias, −inf where hidden.
    visible: bool on the host, broadcasting to the tile, or None where every query sees every key.
    """

    home: Library
    tile: Tile
    raw: Any
    capped: Any
    biased: Any
    visible: Array | None

    def on_host(self) -> "Scores":
        """The same in NumPy."""
        if self.home == NUMPY:
            return self
        raw, capped, biased = (host(stage) for stage in (self.raw, self.capped, self.biased))
        return Scores(NUMPY, self.tile, raw, capped, biased, self.visible)


@dataclass(frozen=True)
class Rows:
    """What the softmax of a row divides by, without its overflow: total · exp(peak).

    peak: what scores are taken relative to: the largest of the row, or of a sink far above it, less 80 nats where a
        kernel computed it; 0 for an empty row: (heads, rows, 1)
    total: Σ exp(score − peak); 0 for an empty row: (heads, rows, 1)
    """

    home: Library
    peak: Any
    total: Any

    @property
    def divisor(self) -> Any:
        """total, 1 for an empty row, whose weights are all 0: (heads, rows, 1)."""
        return self.home.xp.where(self.total == 0, 1.0, self.total)

    @property
    def lse(self) -> Any:
        """log Σ exp(score), nats, −inf for an empty row: (heads, rows)."""
        with np.errstate(divide="ignore"):
            return (self.peak + self.home.xp.log(self.total))[..., 0]

    def on_host(self) -> "Rows":
        """The same in NumPy."""
        return self if self.home == NUMPY else Rows(NUMPY, host(self.peak), host(self.total))


def read_scores(problem: Problem, heads: Array, rows: slice, keys: slice) -> Scores | None:
    """The scores of a tile or of a part of one; None where nobody may see anything."""
    tile = problem.tile(heads, rows, keys)
    sees, bias = visible(problem, tile)
    if sees is False:
        return None
    return _stages(problem, tile, bias, None if sees is True else sees)


def read_all_stages(problem: Problem, heads: Array, rows: slice, keys: slice) -> Scores:
    """As `read_scores`, hidden cells too."""
    tile = problem.tile(heads, rows, keys)
    sees, bias = visible(problem, tile)
    if problem.bias is not None and bias is None:
        bias = problem.bias.of(tile)
    return _stages(problem, tile, bias, None if sees is True else np.asarray(sees))


def _stages(problem: Problem, tile: Tile, bias: Array | None, sees: Array | None) -> Scores:
    home, xp = problem.library, problem.library.xp
    with np.errstate(all="ignore"):  # NaN and inf belong to the row that sees them; nobody is warned twice
        raw = _raw(problem, tile)
        capped = raw if problem.softcap is None else problem.softcap * xp.tanh(raw / problem.softcap)
        biased = capped if bias is None else capped + home.give(_narrow(bias, problem))
        if sees is not None:
            biased = xp.where(home.give(sees), biased, -math.inf)
    # in C order whatever the strides of mask, bias and cut: a sum in another order would have other bits
    return Scores(home, tile, raw, capped, in_order(biased), sees)


def _raw(problem: Problem, tile: Tile) -> Any:
    """factor · score of the whole tile of the grid, cut down to the rows and keys wanted."""
    row0 = tile.rows.start // QUERY_TILE * QUERY_TILE
    key0 = tile.keys.start // KEY_TILE * KEY_TILE
    q = rows_of(problem, problem.q, tile.lead, slice(row0, min(row0 + QUERY_TILE, tile.n_q)), problem.n_heads)
    k = rows_of(problem, problem.k, tile.lead, slice(key0, min(key0 + KEY_TILE, tile.n_k)), problem.n_heads)
    whole = problem.score.of(q, k, problem.factor)
    return whole[:, tile.rows.start - row0 : tile.rows.stop - row0, tile.keys.start - key0 : tile.keys.stop - key0]


def rows_of(problem: Problem, array: Any, lead: tuple[Array, ...], span: slice, n_heads: int) -> Any:
    """Rows of q, k, v or x for some heads, in the work dtype: (…, heads, n, width) -> (heads here, span, width).

    A head axis shorter than n_heads is shared: head h reads row set h // (n_heads / its length).
    """
    part, own = array[..., span, :], tuple(array.shape[:-2])
    if not own:
        return _in_work_dtype(problem, part[None, ...])
    shared = max(1, n_heads // max(1, own[-1]))
    at = (*lead[:-1], lead[-1] // shared)
    index = [
        np.broadcast_to(0 if size == 1 else i, len(lead[-1])) for size, i in zip(own, at[-len(own) :], strict=True)
    ]
    if len(lead[-1]) == 1:  # one head: a view, where an index array would copy
        return _in_work_dtype(problem, part[(*(int(i[0]) for i in index), ...)][None, ...])
    if problem.library == NUMPY:
        return _in_work_dtype(problem, part[tuple(index)])
    heads = [part[(*map(int, one), ...)] for one in zip(*index, strict=True)]  # all that the array API lets one write
    return _in_work_dtype(problem, problem.library.xp.stack(heads))


def _in_work_dtype(problem: Problem, part: Any) -> Any:
    if problem.library == NUMPY:
        return np.ascontiguousarray(part, dtype=problem.work)
    return problem.library.xp.astype(part, problem.work_own, copy=False)


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
    """The online softmax of some rows: the largest score so far, and `total`, the sum taken relative to it."""

    def __init__(self, problem: Problem, heads: Array, rows: slice) -> None:
        self._home = problem.library
        shape = (len(heads), rows.stop - rows.start, 1)
        self._sees = np.zeros(shape, dtype=bool)
        peak = np.full(shape, -np.inf, problem.work)
        if problem.sinks is not None:  # a sink is a score that is there from the start
            peak[:] = problem.sinks[heads % problem.n_heads].astype(problem.work)[:, None, None]
        self._peak = self._home.give(peak)
        self.total = self._home.give(np.where(np.isneginf(peak), problem.work.type(0), problem.work.type(1)))

    def add(self, scores: Scores) -> tuple[Any, Any]:
        """Take a tile in. Returns exp(score − peak) and what older terms are to be multiplied by."""
        xp = self._home.xp
        if scores.visible is None:
            self._sees[:] = True
        else:
            self._sees |= scores.visible.any(axis=-1, keepdims=True)
        with np.errstate(all="ignore"):
            peak = xp.maximum(self._peak, xp.max(scores.biased, axis=-1, keepdims=True))
            shift = xp.where(peak == -math.inf, 0.0, peak)
            correction = xp.exp(self._peak - shift)  # older terms were taken relative to the older peak
            weight = xp.exp(scores.biased - shift)
            self.total = self.total * correction + xp.sum(weight, axis=-1, keepdims=True)
        self._peak = peak
        return weight, correction

    def rows(self) -> Rows:
        """The sums so far. A row that sees keys, all of score −inf, has no softmax: its total is NaN."""
        xp = self._home.xp
        nothing = self._peak == -math.inf
        total = xp.where(nothing & self._home.give(self._sees), math.nan, self.total)
        return Rows(self._home, xp.where(nothing, 0.0, self._peak), total)


def weights_of(scores: Scores, rows: Rows) -> Any:
    """exp(score − peak) / total, exactly 0 where hidden: (heads, rows, keys)."""
    xp = scores.home.xp
    with np.errstate(all="ignore"):
        weight = xp.exp(scores.biased - rows.peak)
        weight /= rows.divisor
    if scores.visible is not None and bool(xp.any(xp.isnan(rows.total))):
        weight = xp.where(scores.home.give(scores.visible), weight, 0.0)
    return weight


def average(home: Library, weight: Any, visible: Array | None, v: Any) -> Any:
    """weight @ v, where a NaN or inf in a row of v counts only for the queries that see it.

    (heads, rows, keys), (heads, keys, d_v) -> (heads, rows, d_v); visible: bool on the host, or None for all.
    """
    xp = home.xp
    finite = xp.isfinite(v)
    with np.errstate(all="ignore"):
        if bool(xp.all(finite)):
            return weight @ v
        out = weight @ xp.where(finite, v, 0.0)
        special = xp.where(finite, 0.0, v)
        for j in np.flatnonzero(~host(finite).all(axis=(0, 2))):
            key = slice(int(j), int(j) + 1)
            part = out + weight[..., key] * special[:, key, :]
            if visible is None:
                out = part
            else:
                sees = visible[..., key] if visible.shape[-1] > 1 else visible
                out = xp.where(home.give(sees), part, out)
    return out


def apply(problem: Problem, lead: Array, v: Any) -> Any:
    """A @ v in one walk over the keys, for the heads of `lead` (flat indices of any shape).

    v: (…, n_k, d_v), its leading axes broadcasting to those of lead, the last maybe shared -> (*lead, n_q, d_v).
    """
    work = Work(lead.size * problem.shape[-2])
    groups = [
        [apply_rows(problem, lead, v, place, rows) for rows in work.rows(problem.row_tiles, len(heads))]
        for place, heads in problem.heads(lead.reshape(-1))
    ]
    return _join(problem, groups, (*lead.shape, problem.shape[-2], v.shape[-1]))


def apply_rows(problem: Problem, lead: Array, v: Any, place: slice, rows: slice) -> Any:
    """A tile of rows of A @ v, for the heads at `place` among those of `lead`: -> (heads, rows, d_v)."""
    home, heads, at = problem.library, lead.reshape(-1)[place], _places(place, lead.shape)
    running = Running(problem, heads, rows)
    mean: Any = _zeros(problem, len(heads), rows, v)
    for keys in problem.key_tiles:
        scores = read_scores(problem, heads, rows, keys)
        if scores is not None:
            before = running.total
            weight, correction = running.add(scores)
            values = rows_of(problem, v, at, keys, lead.shape[-1] if at else 1)
            with np.errstate(all="ignore"):
                # a mean is kept, not a sum: it fits where the values do
                now = running.rows().divisor
                part = average(home, weight / now, scores.visible, values)
                mean = mean * (before * correction / now) + part
    undefined = home.xp.isnan(running.rows().total)
    with np.errstate(over="ignore"):
        return home.xp.astype(home.xp.where(undefined, math.nan, mean), problem.dtype, copy=False)


def apply_transposed(problem: Problem, lead: Array, x: Any) -> Any:
    """A.T @ x in two walks over the keys: (…, n_q, c), leading axes as for `apply` -> (*lead, n_k, c)."""
    home, n_heads = problem.library, lead.shape[-1] if lead.ndim else 1
    groups, work = [], Work(lead.size * problem.shape[-2])
    for place, heads in problem.heads(lead.reshape(-1)):
        at = _places(place, lead.shape)
        sums = [_zeros(problem, len(heads), keys, x) for keys in problem.key_tiles]
        for rows in work.rows(problem.row_tiles, len(heads)):
            row = row_sums(problem, heads, rows)
            part = rows_of(problem, x, at, rows, n_heads)
            for tile, keys in enumerate(problem.key_tiles):
                scores = read_scores(problem, heads, rows, keys)
                if scores is not None:
                    sees = None if scores.visible is None else scores.visible.swapaxes(-1, -2)
                    weight = weights_of(scores, row).mT
                    with np.errstate(all="ignore"):
                        sums[tile] = sums[tile] + average(home, weight, sees, part)
        with np.errstate(over="ignore"):
            groups.append([home.xp.astype(each, problem.dtype, copy=False) for each in sums])
    return _join(problem, groups, (*lead.shape, problem.shape[-1], x.shape[-1]))


def _zeros(problem: Problem, heads: int, span: slice, like: Any) -> Any:
    return problem.library.give(np.zeros((heads, span.stop - span.start, like.shape[-1]), problem.work))


def _join(problem: Problem, groups: list[list[Any]], shape: Shape) -> Any:
    """Tiles of rows, for each group of heads, as one array."""
    home = problem.library
    if not any(groups):
        return home.give(np.zeros(shape, problem.work), problem.dtype)
    whole = [home.xp.concat(parts, axis=1) if len(parts) > 1 else parts[0] for parts in groups]
    return home.xp.reshape(home.xp.concat(whole, axis=0) if len(whole) > 1 else whole[0], shape)


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
    """Walk the tiles once for the sums of the rows and, where a watcher needs weights, once more for those.

    Scores and weights are computed in the library of q, a tile at a time; watchers read them on the host.
    """
    weighing = [watcher for watcher in watchers if type(watcher).weights is not Watcher.weights]
    scoring = [watcher for watcher in watchers if type(watcher).scores is not Watcher.scores]
    work = Work(len(chosen) * problem.shape[-2])
    for place, heads in problem.heads(chosen):
        for rows in work.rows(problem.row_tiles, len(heads)):
            running = Running(problem, heads, rows)
            for keys in problem.key_tiles:
                scores = read_scores(problem, heads, rows, keys)
                if scores is not None:
                    running.add(scores)
                    for watcher in scoring:
                        watcher.scores(place, scores.on_host())
            sums = running.rows()
            for watcher in watchers:
                watcher.rows(place, rows, sums.on_host())
            for keys in problem.key_tiles if weighing else ():
                tile = problem.tile(heads, rows, keys)
                wanting = [watcher for watcher in weighing if watcher.wants(tile)]
                scores = read_scores(problem, heads, rows, keys) if wanting else None
                if scores is not None:
                    weight = host(weights_of(scores, sums))
                    for watcher in wanting:
                        watcher.weights(place, scores.on_host(), sums.on_host(), weight)
