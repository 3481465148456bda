"""Whether an array given beside q and k fits the map, said in one sentence when it does not."""

import math
import numbers
from typing import Any

import numpy as np

from qkv import _arrays
from qkv._typing import Array, Shape
from qkv.errors import ArgumentError, DTypeError, ShapeError


def broadcasts(shape: Shape, to: Shape) -> bool:
    """Whether `shape` broadcasts to `to` without changing it."""
    if len(shape) > len(to):
        return False
    return all(size in (1, whole) for size, whole in zip(reversed(shape), reversed(to), strict=False))


def check_batch(array: Any, shape: Shape, name: str, tail: int = 0) -> None:
    """An array over the batch axes of a map of this shape, then `tail` axes of its own; plain numbers pass."""
    if array is None or isinstance(array, int):
        return
    own = np.shape(array)[: np.ndim(array) - tail]
    if not broadcasts(own, shape[:-3]):
        raise ShapeError(
            f"{name} has batch axes {own}; expected axes that broadcast to {shape[:-3]}, "
            f"the axes before the heads of a map of shape {shape}"
        )


def check_cells(array: Array, shape: Shape, name: str) -> None:
    """An array that broadcasts to the map, (…, n_heads, n_q, n_k)."""
    if broadcasts(array.shape, shape):
        return
    way_out = "say which axis is which, e.g. array[:, None, :]"
    if array.shape == (*shape[:-3], shape[-1]) and len(shape) > 3:
        way_out = f"for padding by key pass {name}[:, None, None, :], or lengths="
    elif array.ndim >= 2 and array.shape[-2:] == (shape[-1], shape[-2]):
        way_out = f"did you mean {name}.swapaxes(-1, -2)?"
    raise ShapeError(
        f"{name} has shape {array.shape}; expected one that broadcasts to (…, n_heads, n_q, n_k) = {shape}: {way_out}"
    )


def integers(value: Any, name: str) -> Array:
    """`value` as an integer array; bool and float are refused."""
    array = _arrays.view(value, name)
    if array.dtype.kind not in "iu" and array.size:
        raise DTypeError(f"{name} has dtype {array.dtype}; expected integers")
    return array.astype(np.int64)


def count(value: Any, name: str, least: int = 0) -> int:
    """`value` as an int >= least."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise DTypeError(f"{name} is {said(value)}; expected an integer >= {least}")
    if value < least:
        raise ArgumentError(f"{name} is {value}; expected an integer >= {least}")
    return int(value)


def real(value: Any, name: str) -> float:
    """`value` as a finite float."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise DTypeError(f"{name} is {said(value)}; expected one real number")
    if not math.isfinite(value):
        raise ArgumentError(f"{name} is {value}; expected a finite number")
    return float(value)


def said(value: Any) -> str:
    """How an error says what came: short, and in one line."""
    shape = getattr(value, "shape", None)
    if shape:
        return f"{type(value).__name__} of shape {tuple(shape)}"
    text = repr(value)
    return text if len(text) <= 60 and "\n" not in text else f"a {type(value).__name__}"


def brief(array: Array) -> str:
    """A short name for an array in a repr: its numbers when there are few, else its dtype and shape."""
    if array.size <= 4:
        return repr(array.tolist())
    return f"{array.dtype}{list(array.shape)}"
