"""Rollout: one token followed back through the maps of all layers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qkv import _arrays
from qkv._broadcast import real, said
from qkv._map import AttentionMap
from qkv._tile import Tile
from qkv._tiles import Rows, Scores
from qkv._typing import Array, Shape
from qkv.errors import ArgumentError, DTypeError, ShapeError
from qkv.measures._measure import Measure, Span, Tally


def rollout(maps: Sequence[AttentionMap], token: int, residual: float = 0.5) -> Any:
    """Where a token of the last layer comes from: row `token` of Â_L · … · Â_1, (…, n), shares of the first layer's.

    Â = (1 − residual) · mean over heads of A + residual · I, the identity for the path around the attention.

    maps: one a layer, the first layer first, each (…, n_heads, n, n) or (n, n); only their heads may differ in number.
    token: a query of the last layer, counted from its end where negative.

    One row goes through the layers, last to first, r ← r Â: a walk over each map, O(n) memory, and no n × n product.
    The shares sum to 1 where all rows of the maps do. float32, float64 for float64 maps. A row of a map that the token
    does not reach isn't read. Abnar & Zuidema 2020. Like the weights themselves it leaves the values out.

    >>> import numpy as np, qkv
    >>> A = qkv.attend(np.zeros((3, 2)), np.zeros((3, 2)), causal=True)
    >>> qkv.rollout([A, A], token=1)
    array([0.4375, 0.5625, 0.    ])
    """
    maps = list(maps)
    shape = _check(maps)
    n = shape[-1]
    if isinstance(token, bool) or not isinstance(token, int | np.integer) or not -n <= token < n:
        raise ArgumentError(f"token of rollout is {said(token)}; expected one of the {n} queries of the last map")
    kept = real(residual, "residual of rollout")
    if not 0 <= kept <= 1:
        raise ArgumentError(f"residual of rollout is {residual}; expected the identity's share, from 0 to 1")
    row = np.zeros(shape)
    row[..., token] = 1
    for each in reversed(maps):
        passed = each.measure(_Passed(row))[0]
        by_head = _arrays.view(passed, "maps")
        one_head = by_head.ndim == row.ndim  # and then without an axis for it
        row = kept * row + (1 - kept) * (by_head if one_head else by_head.mean(axis=-2))
    return _arrays.restore(row.astype(by_head.dtype), _arrays.library(passed))


def _check(maps: list[Any]) -> Shape:
    """What the row that goes through these maps looks like, (…, n)."""
    if not maps:
        raise ArgumentError("rollout got no maps; expected one a layer, the first layer first")
    shapes = []
    for at, each in enumerate(maps):
        if not isinstance(each, AttentionMap):
            raise DTypeError(f"maps[{at}] of rollout is {said(each)}; expected an attention map, as attend gives it")
        if each.shape[-2] != each.shape[-1]:
            raise ShapeError(
                f"maps[{at}] of rollout has shape {each.shape}; expected self-attention, n_q = n_k: a layer that "
                "attends elsewhere has no path around it"
            )
        shapes.append((*each.shape[:-3], each.shape[-1]))
        if shapes[at] != shapes[0]:
            raise ShapeError(
                f"maps[{at}] of rollout has shape {each.shape} and maps[0] has {maps[0].shape}; expected the same axes "
                "but for the heads, as the queries of one layer are the keys of the next"
            )
    return shapes[0]


@dataclass(frozen=True, eq=False)
class _Passed(Measure):
    """row @ A for each head, (…, n_q) -> (…, n_heads, n_k): `received` with a weight for each query."""

    row: Array

    def start(self, span: Span) -> Tally:
        row = self.row if len(span.lead) == 0 else self.row[..., None, :]
        return _PassedOn(np.broadcast_to(row, (*span.lead, span.n_q)).reshape(span.heads, span.n_q), span)


class _PassedOn(Tally):
    def __init__(self, row: Array, span: Span) -> None:
        self._row, self._span = row, span
        self._reached = np.asarray(row.any(axis=0))
        self._sum = np.zeros((span.heads, span.n_k), np.float64)

    def wants(self, tile: Tile) -> bool:
        return bool(self._reached[tile.rows].any())

    def weights(self, place: slice, scores: Scores, sums: Rows, weight: Array) -> None:
        row = self._row[place, scores.tile.rows, None]
        with np.errstate(all="ignore"):
            passed = row * weight
            if not np.isfinite(passed).all():  # 0 · NaN: what a row lacks or doesn't see is not to show
                seen = (row != 0) if scores.visible is None else (row != 0) & scores.visible
                passed = np.where(seen, passed, 0)
            self._sum[place, scores.tile.keys] += passed.sum(axis=-2)

    def result(self) -> Array:
        return self._span.fold(self._sum)
