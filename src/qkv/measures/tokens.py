"""Weight by which token the key is: the heads that find earlier copies. Ids say which tokens are the same."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from qkv._alignment import aligned, as_offset
from qkv._broadcast import check_batch, integers
from qkv._scan import Pairs, Want
from qkv._tile import Tile
from qkv._tiles import Rows, Scores
from qkv._typing import Array
from qkv.errors import ShapeError
from qkv.measures._measure import RowMeasure, Span, Tally


@dataclass(frozen=True, eq=False)
class ByToken(RowMeasure):
    """The weight on the keys that the query's own token picks, the one at its aligned position."""

    ids: Any
    offset: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", integers(self.ids, f"ids of {type(self).__name__}"))
        object.__setattr__(self, "offset", as_offset(self.offset))

    def start(self, span: Span) -> Tally:
        name = type(self).__name__
        if self.ids.ndim == 0 or self.ids.shape[-1] != span.n_k:
            raise ShapeError(f"ids of {name} have shape {self.ids.shape}; expected (…, n_k = {span.n_k})")
        check_batch(self.ids, span.map_shape, f"ids of {name}", tail=1)
        check_batch(self.offset, span.map_shape, f"offset of {name}")
        return super().start(span)

    def parts(self, scores: Scores, sums: Rows, weight: Array, span: Span) -> tuple[Array, ...]:
        tile = scores.tile
        ids = tile.batch(self.ids, tail=1)
        at = aligned(span.alignment(self.offset), tile)
        here = np.clip(at[..., 0], 0, tile.n_k - 1)
        heads = max(len(ids), len(here))
        own = np.take_along_axis(
            np.broadcast_to(ids, (heads, tile.n_k)), np.broadcast_to(here, (heads, here.shape[1])), axis=-1
        )
        picked = self.picks(ids, own[:, :, None], at, tile) & (at < tile.n_k)
        return (np.where(picked, weight, 0).sum(axis=-1),)

    def coded(self) -> Array:
        """Numbers from 0 that are the same where the ids are: (…, n_k)."""
        if self.ids.size == 0 or (self.ids.min() >= 0 and self.ids.max() <= np.iinfo(np.int32).max):
            return np.asarray(self.ids, np.int64)
        return np.unique(self.ids, return_inverse=True)[1].reshape(self.ids.shape)

    def picks(self, ids: Array, own: Array, at: Array, tile: Tile) -> Array:
        """Which keys of the tile count, bool (heads or 1, rows, keys).

        ids: (heads or 1, n_k). own, at: (heads or 1, rows, 1), each query's own id and position; no key is to count
        where that position is before the first key.
        """
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class induction(ByToken):
    """The weight on the keys that follow an earlier copy of the query's token: Σ w_ij over j <= i, t_{j−1} = t_i.

    ids: (n_k,) token ids, or (…, n_k) with the batch axes; the query's token is the one at its aligned position.
    offset: as in `diagonal`. (…, n_q), a share. The prefix-matching score of Olsson et al. 2022.
    """

    def picks(self, ids: Array, own: Array, at: Array, tile: Tile) -> Array:
        before = np.roll(ids, 1, axis=-1)[:, None, tile.keys]
        return (before == own) & (tile.j >= 1) & (tile.j <= at)

    def asks(self, span: Span) -> tuple[Want, ...]:
        token = self.coded()
        before = np.concatenate([np.full((*token.shape[:-1], 1), -1), token[..., :-1]], axis=-1)
        return (Pairs(token, before[..., : span.n_k], span.alignment(self.offset), 1),)


@dataclass(frozen=True, eq=False)
class duplicate(ByToken):
    """The weight on the earlier copies of the query's token: Σ w_ij over j < i, t_j = t_i.

    ids, offset: as in `induction`; i stands for the aligned position. (…, n_q), a share. The duplicate-token heads of
    Wang et al. 2022 have much of it.
    """

    def picks(self, ids: Array, own: Array, at: Array, tile: Tile) -> Array:
        return (ids[:, None, tile.keys] == own) & (tile.j < at)

    def asks(self, span: Span) -> tuple[Want, ...]:
        token = self.coded()
        return (Pairs(token, token, span.alignment(self.offset), 0),)
