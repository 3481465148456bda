"""Which path computes a map, and why."""

from dataclasses import dataclass

import numpy as np

from qkv import _kernel
from qkv._problem import KEY_TILE, QUERY_TILE, Problem, visible
from qkv._typing import Array


@dataclass(frozen=True)
class Plan:
    """How a map is computed.

    path: what computes the map, a compiled kernel or the tile walk. A few measures are always the walk's.
    reason: why this one. library, device: where scores, weights and outputs are computed; measures
    read each tile of weights on the host. dtype: what it computes in. tile: (queries, keys) of a full tile.
    tiles: tiles of the walk that somebody may see. skipped: tiles that nobody may see, never computed.
    """

    path: str
    reason: str
    library: str
    device: str
    dtype: str
    tile: tuple[int, int]
    tiles: int
    skipped: int

    def __str__(self) -> str:
        return (
            f"{self.path} ({self.reason}): {self.tiles} tiles of {self.tile[0]} × {self.tile[1]}, {self.skipped} "
            f"skipped, in {self.dtype} with {self.library} on {self.device}"
        )


def path(problem: Problem) -> str:
    """What computes a map."""
    return "tile walk" if _kernel.refusal(problem) else f"kernel {_kernel.chosen()}"


def plan(problem: Problem, lead: Array) -> Plan:
    """The plan for the heads of `lead`: asks the masks about each tile, never reads q or k."""
    tiles = skipped = 0
    for _, heads in problem.heads(np.ravel(lead)):
        for rows in problem.row_tiles:
            for keys in problem.key_tiles:
                nobody = visible(problem, problem.tile(heads, rows, keys))[0] is False
                skipped += nobody
                tiles += not nobody
    refusal = _kernel.refusal(problem)
    return Plan(
        path=path(problem),
        reason=refusal or "the best that this CPU and QKV_KERNEL allow",
        library=problem.library.name,
        device=problem.library.device,
        dtype=problem.work.name,
        tile=(min(QUERY_TILE, problem.shape[-2]), min(KEY_TILE, problem.shape[-1])),
        tiles=tiles,
        skipped=skipped,
    )
