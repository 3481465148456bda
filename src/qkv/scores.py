"""The first line of attention: how a query is compared with a key. Lines two and three never change.

Dot()                     q·k                          Luong et al. 2015 (dot); Vaswani et al. 2017 with 1/√d_k
Bilinear(w)               q W k                        Luong et al. 2015 (general)
Additive(w_q, w_k, v)     v·tanh(q W_q + k W_k + b)    Bahdanau et al. 2015
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from qkv import _arrays
from qkv._typing import Array, Shape
from qkv.errors import ShapeError

__all__ = ["Additive", "Bilinear", "Dot", "Score"]


class Score:
    """A function of one query and one key; `of` gives all pairs of a tile."""

    def of(self, q: Any, k: Any, factor: float) -> Any:
        """factor · score: (heads, rows, d_q), (heads, keys, d_k) -> (heads, rows, keys)."""
        raise NotImplementedError

    def scale(self, d_k: int) -> float:
        """The multiplier where the caller names none."""
        return 1.0

    def check(self, q: Shape, k: Shape) -> None:
        """Raise a ShapeError when the widths of q and k do not fit."""


@dataclass(frozen=True)
class Dot(Score):
    """q·k, scaled by 1/√d_k where no scale is given (Vaswani et al. 2017, eq. 1)."""

    def of(self, q: Any, k: Any, factor: float) -> Any:
        # q is scaled, not the product: fewer multiplications, and a product too large for the dtype cannot arise
        # where the scaled score fits
        return (q * factor) @ k.mT

    def scale(self, d_k: int) -> float:
        return 1.0 / math.sqrt(d_k) if d_k else 1.0

    def check(self, q: Shape, k: Shape) -> None:
        if q[-1] != k[-1]:
            raise ShapeError(
                f"k has width {k[-1]} but q has width {q[-1]} (k.shape = {k}, q.shape = {q}). "
                "Both need the same d_k; did you pass v as k?"
            )


@dataclass(frozen=True, eq=False)
class Bilinear(Score):
    """q W k, Luong's "general" score (Luong et al. 2015). w: (d_q, d_k)."""

    w: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "w", _matrix(self.w, "w of Bilinear", 2))

    def of(self, q: Any, k: Any, factor: float) -> Any:
        return (q * factor) @ _arrays.like(self.w, q) @ k.mT

    def check(self, q: Shape, k: Shape) -> None:
        if self.w.shape != (q[-1], k[-1]):
            raise ShapeError(f"w of Bilinear has shape {self.w.shape}; expected (d_q, d_k) = {(q[-1], k[-1])}")


@dataclass(frozen=True, eq=False)
class Additive(Score):
    """v·tanh(q W_q + k W_k + b), one hidden layer (Bahdanau et al. 2015).

    w_q: (d_q, hidden), w_k: (d_k, hidden), v: (hidden,), b: (hidden,) or None.
    """

    w_q: Any
    w_k: Any
    v: Any
    b: Any = None

    def __post_init__(self) -> None:
        for name, ndim in (("w_q", 2), ("w_k", 2), ("v", 1), ("b", 1)):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, _matrix(value, f"{name} of Additive", ndim))

    def of(self, q: Any, k: Any, factor: float) -> Any:
        hidden_q, hidden_k = q @ _arrays.like(self.w_q, q), k @ _arrays.like(self.w_k, q)
        if self.b is not None:
            hidden_k = hidden_k + _arrays.like(self.b, q)
        tanh, total = _arrays.library(q).xp.tanh, 0.0
        # one hidden unit at a time: never (rows, keys, hidden) at once
        for unit, v in enumerate(self.v.tolist()):
            here = slice(unit, unit + 1)
            total = total + (v * factor) * tanh(hidden_q[..., here] + hidden_k[..., here].mT)
        return total if self.v.size else _arrays.like(np.zeros((q.shape[0], q.shape[1], k.shape[1])), q)

    def check(self, q: Shape, k: Shape) -> None:
        hidden = self.v.shape[0]
        wanted = {"w_q": (q[-1], hidden), "w_k": (k[-1], hidden), "b": (hidden,)}
        for name, shape in wanted.items():
            value = getattr(self, name)
            if value is not None and value.shape != shape:
                raise ShapeError(f"{name} of Additive has shape {value.shape}; expected {shape}")


def _matrix(value: Any, name: str, ndim: int) -> Array:
    array = _arrays.floating(value, name)
    if array.ndim != ndim:
        raise ShapeError(f"{name} has shape {array.shape}; expected {ndim} axes")
    return array
