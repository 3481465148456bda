"""One cell of the map taken apart, stage by stage."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from qkv._arrays import host
from qkv._cells import Cells
from qkv._problem import Problem
from qkv._tile import Tile
from qkv._tiles import read_all_stages, rows_of


@dataclass(frozen=True)
class Explanation:
    """How one weight comes about. All numbers are nats but `weight`, a share, and `dot`, before any scale.

    query, key: the indices i and j. dot: the score before scale and temperature. raw: scale · dot / temperature.
    capped: after the softcap. bias: what is added, 0 for none. biased: what the softmax sees, −inf where hidden.
    visible: whether the query may see the key. lse: log Σ exp over the row, the sink's score among them.
    """

    query: int
    key: int
    scale: float
    temperature: float
    softcap: float | None
    dot: float
    raw: float
    capped: float
    bias: float
    visible: bool
    biased: float
    lse: float
    weight: float

    def __str__(self) -> str:
        steps = [
            ("q·k", self.dot, ""),
            ("raw", self.raw, f"× scale {self.scale:.6g}, ÷ temperature {self.temperature:.6g}"),
            ("capped", self.capped, "no softcap" if self.softcap is None else f"softcap {self.softcap:.6g}"),
            ("biased", self.capped + self.bias, f"bias {self.bias:+.6g}"),
            ("score", self.biased, "visible" if self.visible else "hidden by the mask, or by −inf in the bias"),
            ("lse", self.lse, "of the whole row"),
            ("weight", self.weight, "exp(score − lse)"),
        ]
        lines = [f"query {self.query}, key {self.key}"]
        return "\n".join(lines + [f"  {name:<8}{value:>14.6f}   {how}".rstrip() for name, value, how in steps])


def explain(problem: Problem, head: int, i: int, j: int) -> Explanation:
    """Take the cell (i, j) of one head (a flat index) apart."""
    heads, rows, keys = np.array([head]), slice(i, i + 1), slice(j, j + 1)
    source, scores = Cells(problem), read_all_stages(problem, heads, rows, keys)
    sums = source.sums(heads, rows)
    visible = scores.visible is None or bool(_cell(scores.visible))
    bias = 0.0 if problem.bias is None else _cell(problem.bias.of(scores.tile))
    return Explanation(
        query=i,
        key=j,
        scale=problem.scale,
        temperature=problem.temperature,
        softcap=problem.softcap,
        dot=_cell(_dot(problem, scores.tile)),
        raw=_cell(source.read("raw", heads, rows, keys)),
        capped=_cell(source.read("capped", heads, rows, keys)),
        bias=bias,
        visible=visible,
        biased=_cell(source.read("biased", heads, rows, keys)) if visible else -np.inf,
        lse=_cell(sums.lse),
        weight=_cell(source.read("weight", heads, rows, keys, sums)) if visible else 0.0,
    )


def _dot(problem: Problem, tile: Tile) -> Any:
    q = rows_of(problem, problem.q, tile.lead, tile.rows, problem.n_heads)
    with np.errstate(all="ignore"):  # what overflows shows in the numbers
        return problem.score.of(q, rows_of(problem, problem.k, tile.lead, tile.keys, problem.n_heads), 1.0)


def _cell(array: Any) -> float:
    return float(np.ravel(host(array))[0])
