"""NumPy's indexing for a matrix that is not stored.

An index is worked out on coordinates instead of cells. With at most one index array the wanted cells are a rectangle,
which is computed and then indexed by NumPy itself; with more they are single cells.
"""

import math
from typing import Any

import numpy as np

from qkv import _arrays
from qkv._cells import Stage
from qkv._problem import Problem, refuse_bytes
from qkv._read import points, rectangle
from qkv._typing import Array, Shape

UNTOUCHED = slice(None)  # stands for the axes that an index leaves out; a slice that the caller writes is another one


def expand(index: Any, ndim: int) -> tuple[Any, ...]:
    """The index as one entry an axis (a bool array of several axes counts for them all), with None entries kept."""
    entries = index if isinstance(index, tuple) else (index,)
    entries = tuple(_entry(entry) for entry in entries)
    taken = sum(_axes(entry) for entry in entries)
    dots = [at for at, entry in enumerate(entries) if entry is Ellipsis]
    if taken > ndim:
        raise IndexError(f"too many indices: the map has {ndim} axes, but {taken} were indexed")
    if len(dots) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    fill = (UNTOUCHED,) * (ndim - taken)
    at = dots[0] if dots else len(entries)
    return entries[:at] + fill + entries[at + len(dots) :]


def leading_only(entries: tuple[Any, ...], ndim: int) -> tuple[Any, ...] | None:
    """The part of an expanded index on the axes before n_q, or None when n_q or n_k is touched."""
    axis = 0
    for at, entry in enumerate(entries):
        if axis + _axes(entry) > ndim - 2:
            rest = entries[at:]
            return entries[:at] if all(each is UNTOUCHED for each in rest) and axis == ndim - 2 else None
        axis += _axes(entry)
    return entries


def get(problem: Problem, stage: Stage, lead: Array, entries: tuple[Any, ...]) -> Array:
    """The cells that an expanded index names, as NumPy would give them from the dense matrix."""
    shape = lead.shape + problem.shape[-2:]
    arrays = sum(isinstance(entry, np.ndarray) for entry in entries)
    if arrays <= 1 and not any(isinstance(entry, np.ndarray) and entry.ndim != 1 for entry in entries):
        return _get_rectangle(problem, stage, lead, entries, shape)
    return _get_points(problem, stage, lead, entries, shape)


def refuse_large(cells: int, problem: Problem, stage: Stage, way_out: str) -> None:
    """Raise a DenseError when this many cells are more than 1 GiB."""
    refuse_bytes(cells * (problem.bytes_per_weight if stage == "weight" else problem.work.itemsize), way_out)


WAY_OUT = "take fewer rows, a measure such as A.entropy() or A.image(512), or dense() if you have the memory"


def _get_rectangle(problem: Problem, stage: Stage, lead: Array, entries: tuple[Any, ...], shape: Shape) -> Array:
    wanted: list[Array] = []  # for each axis, the coordinates to compute
    inside: list[Any] = []  # the index into what was computed
    for entry in entries:
        if entry is None:
            inside.append(None)
            continue
        size = shape[len(wanted)]
        coordinates = np.arange(size)[entry]  # NumPy's own IndexError
        wanted.append(np.atleast_1d(coordinates))
        is_array = isinstance(entry, np.ndarray)
        inside.append(0 if coordinates.ndim == 0 else np.arange(len(coordinates)) if is_array else slice(None))
    *lead_at, i, j = wanted
    heads = lead[np.ix_(*lead_at)] if lead_at else lead
    refuse_large(heads.size * len(i) * len(j), problem, stage, WAY_OUT)
    block = rectangle(problem, stage, heads.reshape(-1), i, j)
    return np.asarray(block.reshape((*heads.shape, len(i), len(j)))[tuple(inside)])


def _get_points(problem: Problem, stage: Stage, lead: Array, entries: tuple[Any, ...], shape: Shape) -> Array:
    n_q, n_k = shape[-2:]
    # broadcast views: the whole map's coordinates without its memory
    refuse_large(_count(entries, shape), problem, stage, WAY_OUT)
    heads = np.broadcast_to(lead[..., None, None], shape)[entries]
    i = np.broadcast_to(np.arange(n_q)[:, None], shape)[entries]
    j = np.broadcast_to(np.arange(n_k), shape)[entries]
    flat = points(problem, stage, np.ravel(heads), np.ravel(i), np.ravel(j))
    return flat.reshape(i.shape)


def _count(entries: tuple[Any, ...], shape: Shape) -> int:
    """How many cells an index names, before any of them is worked out."""
    cells, axis, picked = 1, 0, []
    for entry in entries:
        if isinstance(entry, np.ndarray):
            picked.append((int(entry.sum()),) if entry.dtype == bool else entry.shape)
        elif isinstance(entry, slice):
            cells *= len(range(*entry.indices(shape[axis])))
        axis += _axes(entry)
    return cells * math.prod(np.broadcast_shapes(*picked))


def _entry(entry: Any) -> Any:
    if entry is None or entry is Ellipsis or isinstance(entry, slice):
        return entry
    if isinstance(entry, bool | np.bool_):
        return np.asarray(entry)
    if isinstance(entry, int | np.integer):
        return int(entry)
    array = _arrays.view(entry, "an index")
    if array.size == 0 and array.dtype.kind == "f":
        array = array.astype(np.intp)  # an empty list
    if array.dtype.kind not in "iub":
        raise IndexError("only integers, slices, ellipsis, None and integer or bool arrays are valid indices")
    if array.ndim == 0 and array.dtype.kind != "b":
        return int(array)
    return array


def _axes(entry: Any) -> int:
    if entry is None or entry is Ellipsis:
        return 0
    return entry.ndim if isinstance(entry, np.ndarray) and entry.dtype == bool else 1
