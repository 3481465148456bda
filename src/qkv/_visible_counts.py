"""How many cells of a map are visible, by row, key or pixel: from what the mask says, without a score."""

from itertools import pairwise

import numpy as np

from qkv._kernel import Form
from qkv._problem import Problem, visible
from qkv._typing import Array


class Counts:
    """The counts of some heads (flat) of a problem that a kernel takes."""

    def __init__(self, problem: Problem, form: Form, heads: Array) -> None:
        self._problem, self._form, self._heads = problem, form, heads

    def of(self, what: str | tuple[int, int]) -> Array:
        """By "rows" (heads, n_q), "keys" (heads, n_k), or (height, width): (heads, height, width)."""
        n_q, n_k = self._problem.shape[-2:]
        height, width = {"rows": (n_q, 1), "keys": (1, n_k)}[what] if isinstance(what, str) else what
        rows, keys = edges(n_q, height), edges(n_k, width)
        bias = self._form.bias
        if self._form.mask is not None or (bias is not None and bool(np.isneginf(bias).any())):
            found = np.stack([self._by_cells(head, rows, keys) for head in self._heads[:, None]])
        else:
            found = self._by_spans(rows, keys)
        return found.reshape(len(self._heads), -1) if isinstance(what, str) else found

    def _by_spans(self, rows: Array, keys: Array) -> Array:
        batch, n_q = self._problem.shape[:-3], self._problem.shape[-2]
        if self._form.spans is None:
            shape = (len(self._heads), len(rows) - 1, len(keys) - 1)
            return np.broadcast_to(_one_size(rows)[:, None] * _one_size(keys), shape)
        first, last = (np.broadcast_to(each, (*batch, n_q)).reshape(-1, n_q) for each in self._form.spans)
        entries = self._heads // max(1, self._problem.n_heads)
        by_entry = {entry: _pixels(first[entry], last[entry], rows, keys) for entry in np.unique(entries)}
        return np.stack([by_entry[entry] for entry in entries])

    def _by_cells(self, head: Array, rows: Array, keys: Array) -> Array:
        """The counts of one head, tile by tile, where a mask or a bias says of each cell whether it is hidden."""
        counts = np.zeros((len(rows) - 1, len(keys) - 1), np.int64)
        for row_tile in self._problem.row_tiles:
            for key_tile in self._problem.key_tiles:
                sees = visible(self._problem, self._problem.tile(head, row_tile, key_tile))[0]
                if sees is False:
                    continue
                shape = (row_tile.stop - row_tile.start, key_tile.stop - key_tile.start)
                cells = np.broadcast_to(np.asarray(sees)[0] if sees is not True else True, shape).astype(np.int64)
                row0, row_at = _starts(rows, row_tile)
                key0, key_at = _starts(keys, key_tile)
                part = np.add.reduceat(np.add.reduceat(cells, row_at, axis=0), key_at, axis=1)
                counts[row0 : row0 + part.shape[0], key0 : key0 + part.shape[1]] += part
        return counts


def edges(size: int, pixels: int) -> Array:
    """Where each pixel begins, ⌊i · pixels / size⌋ being the pixel of i, and where the last one ends: (pixels + 1,)."""
    return -(-np.arange(pixels + 1) * size // pixels)


def _one_size(edge: Array) -> Array:
    """The size of each pixel, (pixels,), or of all where they are alike, (1,)."""
    size = np.diff(edge)
    return size[:1] if (size == size[0]).all() else size


def _starts(edge: Array, span: slice) -> tuple[int, Array]:
    """The first pixel that a span falls into, and where in the span each of its pixels begins."""
    first = int(np.searchsorted(edge, span.start, side="right")) - 1
    inside = edge[(edge > span.start) & (edge < span.stop)]
    return first, np.concatenate([[0], inside - span.start]).astype(np.intp)


def _pixels(first: Array, last: Array, rows: Array, keys: Array) -> Array:
    """How many of the cells first_i <= j < last_i lie in each pixel: (height, width)."""
    last = np.maximum(first, last)
    if len(keys) == 2:  # one column: whole rows
        return np.add.reduceat(last - first, rows[:-1])[:, None]
    reach = [_reach(first[a:b], last[a:b], keys) for a, b in pairwise(rows)]
    return np.diff(np.stack(reach), axis=-1)


def _reach(first: Array, last: Array, edge: Array) -> Array:
    """Σ_i of each edge kept within first_i and last_i, which is max(edge, first_i) + min(edge, last_i) − edge."""
    first, last, n = np.sort(first), np.sort(last), len(first)
    passed, ended = np.searchsorted(first, edge), np.searchsorted(last, edge)
    above = first.sum() - np.concatenate([[0], first.cumsum()])[passed]  # of the firsts that lie behind the edge
    below = np.concatenate([[0], last.cumsum()])[ended]
    return np.asarray(passed * edge + above + below + (n - ended) * edge - n * edge)
