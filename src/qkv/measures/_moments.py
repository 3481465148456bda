"""Mean and variance of each row, gathered tile by tile without the difference of two large sums."""

import numpy as np

from qkv._typing import Array


class Moments:
    """The weighted mean of each row and the squares around it, each (heads, n_q), merged as Chan et al. 1983 do.

    total: Σ weight. mean: Σ weight · value / total, 0 where total is 0. squares: Σ weight · (value − mean)².
    """

    def __init__(self, heads: int, n_q: int) -> None:
        # float64: a key 10⁶ places away differs from the next one in the last bits of a float32
        self.total, self.mean, self.squares = np.zeros((3, heads, n_q), np.float64)

    def add(self, place: slice, rows: slice, weight: Array, value: Array) -> None:
        """Take a tile in: weight and value broadcast to (heads, rows, keys); value is finite where weight is 0."""
        with np.errstate(all="ignore"):
            total = weight.sum(axis=-1, dtype=np.float64)
            mean = (weight * value).sum(axis=-1, dtype=np.float64) / _or_one(total)
            squares = (weight * np.square(value - mean[..., None])).sum(axis=-1, dtype=np.float64)
            before = self.total[place, rows]
            share = total / _or_one(before + total)
            step = mean - self.mean[place, rows]
            self.squares[place, rows] += squares + np.square(step) * before * share
            self.mean[place, rows] += step * share
            self.total[place, rows] += total

    @property
    def variance(self) -> Array:
        """Σ weight · (value − mean)² / total, 0 where total is 0: (heads, n_q)."""
        return self.squares / _or_one(self.total)

    def overall(self) -> Array:
        """The variance of all rows of a head taken together: (heads,)."""
        total = self.total.sum(axis=-1, keepdims=True)
        mean = (self.total * self.mean).sum(axis=-1, keepdims=True) / _or_one(total)
        squares = self.squares + self.total * np.square(self.mean - mean)
        return squares.sum(axis=-1) / _or_one(total)[..., 0]


def _or_one(total: Array) -> Array:
    """A divisor for a sum that is 0 wherever this is."""
    return np.where(total == 0, 1, total)
