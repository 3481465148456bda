"""The attentions that are measured: their arrays, and whether an answer is theirs."""

from functools import cache
from typing import NamedTuple

import numpy as np
from turns import Missing

from qkv import formula

LIMITS = {"float32": 1e-5, "bfloat16": 2e-2, "float16": 3e-3}  # of the largest value
ROWS = 64  # queries of an answer that are compared

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]


class Shape(NamedTuple):
    """One attention: q (1, heads, n_q, d) over k and v (1, kv_heads, n_k, d), causal or full."""

    heads: int
    n_q: int
    n_k: int
    d: int
    causal: bool = False
    kv_heads: int = 0  # as many as heads

    def __str__(self) -> str:
        heads = f"{self.heads}:{self.keyed}" if self.keyed != self.heads else f"{self.heads}"
        n = f"{self.n_q}" if self.n_q == self.n_k else f"{self.n_q}×{self.n_k}"
        return f"(1, {heads}, {n}, {self.d}) {'causal' if self.causal else 'full'}"

    @property
    def keyed(self) -> int:
        return self.kv_heads or self.heads

    @property
    def flops(self) -> int:
        """4 · d for each pair that may be seen."""
        pairs = self.n_q * (self.n_q + 1) // 2 if self.causal else self.n_q * self.n_k
        return 4 * self.heads * self.d * pairs

    @property
    def numbers_of_keys(self) -> int:
        return 2 * self.keyed * self.n_k * self.d


def numpy_dtype(name: str) -> np.dtype:
    if name != "bfloat16":
        return np.dtype(name)
    import ml_dtypes

    return np.dtype(ml_dtypes.bfloat16)


@cache
def _drawn(shape: Shape) -> Arrays:
    rng = np.random.default_rng(0)
    rows = [(shape.heads, shape.n_q), (shape.keyed, shape.n_k), (shape.keyed, shape.n_k)]
    q, k, v = (rng.standard_normal((1, *each, shape.d), dtype=np.float32) for each in rows)
    return q, k, v


def arrays(shape: Shape, dtype: str) -> Arrays:
    """q, k and v: the same normal numbers every time, rounded to the dtype."""
    q, k, v = (each.astype(numpy_dtype(dtype), copy=False) for each in _drawn(shape))
    return q, k, v


def forget() -> None:
    """Let go of the arrays of the last attention."""
    _drawn.cache_clear()


def expected(shape: Shape, given: Arrays, rows: np.ndarray) -> np.ndarray:
    """The formula in float64, for these queries: (1, heads, rows, d); a head at a time, for its memory."""
    q, k, v = given
    visible = formula.causal(shape.n_q, shape.n_k)[rows] if shape.causal else None
    heads = []
    for head in range(shape.heads):
        of = head * shape.keyed // shape.heads
        one = (each.astype(np.float64) for each in (q[0, head, rows], k[0, of], v[0, of]))
        heads.append(formula.attention(*one, visible=visible))
    return np.stack(heads)[None]


def check(shape: Shape, dtype: str, given: Arrays, found: np.ndarray) -> None:
    """Hold an answer (1, heads, n_q, d) to the formula in float64; Missing where it is another one."""
    rows = np.unique(np.linspace(0, shape.n_q - 1, ROWS).astype(int))
    right = expected(shape, given, rows)
    apart = float(np.abs(found.astype(np.float64)[..., rows, :] - right).max() / np.abs(right).max())
    if not apart <= LIMITS[dtype]:
        raise Missing(f"its answer is {apart:.0e} of the largest value away from the formula")
