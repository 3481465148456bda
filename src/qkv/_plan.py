"""Which path computes a map, and why."""

from dataclasses import dataclass

import numpy as np

from qkv import _kernel
from qkv._problem import KEY_TILE, QUERY_TILE, Problem, visible
from qkv._typing import Array

WALK = "tile walk"


@dataclass(frozen=True)
class Plan:
    """How a map is computed.

    path: what computes A @ v, A.T @ x, cells and measures, "kernel " and its name, or "tile walk". Always the walk's
    are the measures spread, similar and distance(grid=…), rollout, and rows that show NaN or an infinity.
    reason: why this one. library, device: whose q and k are; the walk computes scores, weights and outputs there, but
    its measures read each tile on the host. dtype: of scores, sums and measures.
    tile, tiles, skipped: how the walk divides the map, whatever the path: (queries, keys) of a full tile, tiles that
    somebody may see, and tiles that nobody may see, never computed. A kernel's tiles are smaller.
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
        tiles = f"{self.tiles} tiles of {self.tile[0]} × {self.tile[1]}, {self.skipped} skipped"
        where = f"in {self.dtype} with {self.library} on {self.device}"
        if self.path == WALK:
            return f"{self.path} ({self.reason}): {tiles}, {where}"
        return f"{self.path} ({self.reason}): {where}; the walk would have {tiles}"


def path(problem: Problem) -> str:
    """What computes a map."""
    return WALK if _kernel.refusal(problem) else f"kernel {_kernel.chosen()}"


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
