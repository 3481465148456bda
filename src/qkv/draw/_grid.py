"""What every view of a map shares: checking, pooling, the range of colours, and the words said about them."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from qkv.draw import _labels
from qkv.draw._labels import Label
from qkv.errors import ArgumentError, DTypeError, ShapeError

__all__ = ["Checked", "Contrast", "Floats", "Grid", "Labels", "Limits", "check", "nothing", "number"]

Floats: TypeAlias = npt.NDArray[np.float64]
Labels: TypeAlias = Iterable[Any] | None
Limits: TypeAlias = tuple[float, float] | None
Contrast: TypeAlias = Literal["linear", "root"]


@dataclass(frozen=True)
class Grid:
    """A map ready to draw: (n_rows, n_columns) cells, each the largest of a `block` of (n_q, n_k) weights.

    A NaN cell has nothing to show. `low` and `high` are the values at the ends of the colours.
    """

    values: Floats
    rows: list[Label]
    columns: list[Label]
    shape: tuple[int, int]
    block: tuple[int, int]
    low: float
    high: float
    contrast: Contrast

    @property
    def pooled(self) -> bool:
        """Whether a cell stands for more than one weight."""
        return self.block != (1, 1)

    @property
    def blank(self) -> bool:
        """Whether no cell has anything to show."""
        return bool(np.isnan(self.values).all())

    @property
    def hides(self) -> bool:
        """Whether some cell has nothing to show."""
        return bool(np.isnan(self.values).any())

    def position(self) -> Floats:
        """The place of each cell on the colours: (n_rows, n_columns), 0 … 1, NaN for nothing to show."""
        values = np.clip(self.values, self.low, self.high)
        if self.low == self.high:
            # No contrast to show: the colour that this value has between the weights 0 and 1.
            return np.clip(values, 0.0, 1.0)
        if math.isinf(self.high - self.low):
            place = (values / 4 - self.low / 4) / (self.high / 4 - self.low / 4)
        else:
            place = (values - self.low) / (self.high - self.low)
        return np.sqrt(place) if self.contrast == "root" else place

    def value_at(self, place: float) -> float:
        """The value that has this place on the colours."""
        share = place**2 if self.contrast == "root" else place
        return self.low * (1 - share) + self.high * share

    def pooling(self) -> str:
        """What was pooled, in a sentence; empty where nothing was."""
        if not self.pooled:
            return ""
        size = "{} × {}".format
        return f"{size(*self.shape)} weights, pooled by max: one cell is the largest of up to {size(*self.block)}"

    def figures(self) -> list[list[str]] | None:
        """Each cell in at most five characters, "" where it rounds to 0; None where one needs more."""
        if self.pooled:
            return None
        texts = [[_short(value) for value in row] for row in self.values.tolist()]
        return texts if all(len(text) <= 5 for row in texts for text in row) else None


@dataclass(frozen=True)
class Checked:
    """The arguments that every view of a map takes, checked; `grid` pools them to what the view has room for."""

    weights: npt.NDArray[Any]
    rows: list[str] | None
    columns: list[str] | None
    visible: npt.NDArray[np.bool_] | None
    limits: Limits
    contrast: Contrast

    @property
    def shape(self) -> tuple[int, int]:
        """(n_q, n_k)."""
        n_q, n_k = self.weights.shape
        return n_q, n_k

    def grid(self, most: tuple[int, int], *, tall: bool = False) -> Grid:
        """Pooled to at most `most` = (rows, columns) cells.

        A square map gets square blocks, so that its diagonal stays one; `tall` makes them twice as tall as wide.
        """
        block = _blocks(self.shape, most, tall=tall)
        values = _pool(self.weights, self.visible, block)
        low, high = _range(values, self.limits)
        return Grid(
            values=values,
            rows=_axis(self.rows, self.shape[0], block[0]),
            columns=_axis(self.columns, self.shape[1], block[1]),
            shape=self.shape,
            block=block,
            low=low,
            high=high,
            contrast=self.contrast,
        )


def check(weights: Any, rows: Labels, columns: Labels, *, visible: Any, limits: Limits, contrast: Contrast) -> Checked:
    """Every check of the views' common arguments, once."""
    array = _check(weights)
    shape = (array.shape[0], array.shape[1])
    if contrast not in {"linear", "root"}:
        raise ArgumentError(f'contrast must be "linear" or "root", not {contrast!r}.')
    return Checked(
        array,
        _labels.check("rows", rows, shape[0], shape),
        _labels.check("columns", columns, shape[1], shape),
        _check_visible(visible, shape),
        _check_limits(limits),
        contrast,
    )


def _check(weights: Any) -> npt.NDArray[Any]:
    """The weights as one real 2-D array."""
    try:
        array = np.asarray(weights)
    except ValueError as error:
        raise ShapeError("weights must be a 2-D array, but its rows differ in length.") from error
    if not np.can_cast(array.dtype, np.float64, "same_kind"):
        raise DTypeError(f"weights must be real numbers, not {array.dtype}.")
    if array.ndim == 2:
        return array
    got = f"weights.shape = {array.shape}"
    if array.ndim < 2:
        raise ShapeError(
            f"weights must be one map, (n_q, n_k), but it has {array.ndim} axes ({got}). "
            "For one query's row pass weights[None, :] or use draw.bars."
        )
    *batch, n_q, n_k = array.shape
    pick = ", ".join("0" for _ in batch)
    raise ShapeError(
        f"weights must be one map, (n_q, n_k), but {_stack(batch)} of {n_q} × {n_k} maps ({got}). "
        f"Pick one, weights[{pick}], or average on purpose, weights.mean(axis={tuple(range(len(batch)))})."
    )


def _stack(batch: list[int]) -> str:
    """What the leading axes hold, in words."""
    if len(batch) == 1:
        return f"this is a batch that has {batch[0]} items or heads"
    if len(batch) == 2:
        return f"the batch has {batch[0]} items with {batch[1]} heads each"
    return f"the batch has {math.prod(batch)} items ({' × '.join(map(str, batch))})"


def _check_visible(visible: Any, shape: tuple[int, int]) -> npt.NDArray[np.bool_] | None:
    if visible is None:
        return None
    mask = np.asarray(visible)
    if mask.dtype != np.bool_:
        raise DTypeError(f"visible must be bool, True = shown, not {mask.dtype}: pass visible.astype(bool).")
    try:
        return np.broadcast_to(mask, shape)
    except ValueError as error:
        raise ShapeError(
            f"visible must broadcast to the map, but has shape {mask.shape} and weights.shape = {shape}."
        ) from error


def _blocks(shape: tuple[int, int], most: tuple[int, int], *, tall: bool) -> tuple[int, int]:
    """How many rows and columns make one cell."""
    rows, columns = (max(1, -(-size // limit)) for size, limit in zip(shape, most, strict=True))
    if shape[0] != shape[1] or (rows, columns) == (1, 1):
        return rows, columns
    side = max(columns, -(-rows // 2) if tall else rows)
    return (2 * side if tall else side), side


def _pool(map_: npt.NDArray[Any], visible: npt.NDArray[np.bool_] | None, block: tuple[int, int]) -> Floats:
    """The largest shown weight of each block: (n_q, n_k) -> (cells, cells), NaN where none is shown."""
    n_q, n_k = map_.shape
    starts = range(0, n_q, block[0])
    pooled = np.full((len(starts), len(range(0, n_k, block[1]))), np.nan)
    # One band of rows at a time: the map is never copied whole.
    for place, start in enumerate(starts if n_k else ()):
        with np.errstate(over="ignore"):
            band = map_[start : start + block[0]].astype(np.float64)
        if visible is not None:
            band[~visible[start : start + block[0]]] = np.nan
        largest = np.fmax.reduce(band, axis=0)
        pooled[place] = np.fmax.reduceat(largest, np.arange(0, n_k, block[1]))
    # A score of −inf is how a hidden cell looks before the softmax.
    pooled[np.isneginf(pooled)] = np.nan
    return pooled


def _check_limits(limits: Limits) -> Limits:
    if limits is None:
        return None
    try:
        low, high = (float(limit) for limit in limits)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"limits must be two numbers, (low, high), not {limits!r}.") from error
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ArgumentError(f"limits must be finite with low < high, not {limits!r}; None fits them to the map.")
    return low, high


def _range(values: Floats, limits: Limits) -> tuple[float, float]:
    """The values at the ends of the colours: the caller's, else the smallest and largest shown cell."""
    if limits is not None:
        return limits
    finite = values[np.isfinite(values)]
    return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)


def _axis(labels: list[str] | None, size: int, block: int) -> list[Label]:
    if labels is not None and block == 1:
        return _labels.shown(labels)
    return [_labels.of_block(labels, start, min(start + block, size)) for start in range(0, size, block)]


def nothing(shape: tuple[int, int]) -> str:
    """What to say in place of a picture of no cell."""
    return f"{shape[0]} × {shape[1]} map: nothing to draw"


def number(value: float) -> str:
    """A value with three significant digits, "" where there is nothing to show."""
    return "" if math.isnan(value) else f"{value + 0.0:.3g}"


def _short(value: float) -> str:
    """Two decimals without the leading zero, `.71`; "" for what rounds to zero or is not shown."""
    if math.isnan(value) or abs(value) < 0.005:
        return ""
    text = f"{value:.2f}"
    return text.replace("0.", ".", 1) if abs(float(text)) < 1 else f"{value:.1f}"
