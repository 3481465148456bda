"""The compiled kernels: which of them can run here, whether one can run a Problem, and the call.

A kernel takes every Problem with a dot-product score, in NumPy or torch on the CPU, whose mask is spans of keys and at
most one dense array, and whose bias is at most one dense array and functions of the distance. Everything else goes to
the tile walk, and `A.plan()` says why. Rows that hold NaN or an infinity are computed again by the walk, so that what
they show is what it shows.
"""

import os
import sys
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from qkv import _tiles, biases, masks, scores
from qkv._arrays import dtype_name, host
from qkv._problem import Problem
from qkv._typing import Array, Shape
from qkv.errors import ArgumentError

try:
    from qkv import _core as core
except ImportError:  # a package without its compiled part still computes everything, by the walk
    core = None  # type: ignore[assignment]

_process = sys.modules.get("multiprocessing.process")
if core is not None and _process is not None and _process.parent_process() is not None:
    core.leave_openmp()  # a worker that may have been forked before this module was loaded

DTYPES = {"float16": 0, "bfloat16": 1, "float32": 2, "float64": 3}


@dataclass(frozen=True)
class Kernel:
    """A compiled kernel: its name, whether it can run here, whether it is the one that runs, and why or why not."""

    name: str
    runs: bool
    chosen: bool
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {'chosen, ' if self.chosen else ''}{self.reason}"


@cache
def _kernels(wanted: str | None) -> tuple[Kernel, ...]:
    found = [] if core is None else core.candidates()
    names = [name for name, runs, _ in found if runs]
    if wanted and wanted != "walk" and wanted not in names:
        raise ArgumentError(f"QKV_KERNEL is {wanted!r}; expected one of {', '.join([*names, 'walk'])}")
    chosen = wanted or (names[0] if names else "walk")
    told = [
        Kernel(name, runs, name == chosen, f"this CPU has {needs}" if runs else f"this CPU lacks some of {needs}")
        for name, runs, needs in found
    ]
    reason = "it takes every score, mask, bias, dtype and array library"
    return (*told, Kernel("walk", True, chosen == "walk", reason))


def kernels() -> list[Kernel]:
    """Every kernel of this package, best first, with the reason that it can or cannot run.

    The best that this CPU can run is chosen; the environment variable QKV_KERNEL names another one, or "walk" for none.
    """
    return list(_kernels(os.environ.get("QKV_KERNEL")))


def chosen() -> str:
    """The name of the kernel that runs: "walk" where there is none."""
    return next(kernel.name for kernel in _kernels(os.environ.get("QKV_KERNEL")) if kernel.chosen)


def set_num_threads(n: int | None) -> None:
    """How many threads a kernel may use; None goes back to OMP_NUM_THREADS, or the CPUs of this process."""
    if n is not None and (isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1):
        raise ArgumentError(f"n of set_num_threads is {n!r}; expected an integer >= 1, or None for the default")
    if core is not None:
        core.set_threads(0 if n is None else int(n))


@dataclass(frozen=True)
class Form:
    """A Problem's mask and bias as a kernel reads them; None where there is nothing of that form."""

    spans: tuple[Array, Array] | None  # the first key of each query and the one behind its last
    mask: Array | None
    bias: Array | None
    by_distance: Array | None


def refusal(problem: Problem) -> str | None:
    """Why the kernels can't run this Problem, in words, or None; reads no array."""
    if chosen() == "walk":
        return "no kernel is chosen" if core is not None else "the compiled part of the package is not there"
    if problem.library.name not in ("numpy", "torch") or problem.library.device != "cpu":
        return f"the arrays are of {problem.library.name} on {problem.library.device}"
    if type(problem.score) is not scores.Dot:
        return f"the score is {type(problem.score).__name__}"
    rules = [rule for rule in masks.parts(problem.mask) if not rule.has_spans]
    if len(rules) > 1 or any(not isinstance(rule, masks.dense) for rule in rules):
        return f"the mask {problem.mask!r} is more than spans of keys and one array"
    added = [part for part in biases.parts(problem.bias) if not part.is_by_distance]
    if len(added) > 1 or any(not isinstance(part, biases.dense) for part in added):
        return f"the bias {problem.bias!r} is more than functions of the distance and one array"
    return None


def form(problem: Problem) -> Form:
    """The mask and bias of a Problem that `refusal` has nothing against."""
    spans, mask, bias, by_distance = None, None, None, None
    for rule in masks.parts(problem.mask):
        if isinstance(rule, masks.dense):
            mask = rule.array
        else:
            own = rule.spans(problem.shape)
            spans = own if spans is None else (np.maximum(spans[0], own[0]), np.minimum(spans[1], own[1]))
    for part in biases.parts(problem.bias):
        if isinstance(part, biases.dense):
            bias = part.array
        else:
            table = part.by_distance(problem.shape)
            by_distance = table if by_distance is None else by_distance + table
    return Form(spans, mask, bias, by_distance)


def apply(problem: Problem, lead: Array, v: Any) -> Any:
    """A @ v by the chosen kernel, or by the tile walk where that can't; as `_tiles.apply`."""
    if refusal(problem) is not None or not lead.size:
        return _tiles.apply(problem, lead, v)
    (out,) = run(problem, form(problem), lead, v)
    # NaN and infinities are the walk's to show: it knows which of them a query may see
    odd = np.flatnonzero(~np.isfinite(out).all(axis=(-2, -1)))
    for head in odd:
        _mend(problem, lead, v, int(head), out[head])
    with np.errstate(over="ignore"):
        return problem.library.give(out.reshape(*lead.shape, *out.shape[1:]), problem.dtype)


def _mend(problem: Problem, lead: Array, v: Any, head: int, out: Array) -> None:
    """Compute the rows of one head that are not finite again by the walk."""
    rows = np.flatnonzero(~np.isfinite(out).all(axis=-1))
    for tile in problem.row_tiles:
        here = rows[(rows >= tile.start) & (rows < tile.stop)]
        if here.size:
            mended = _tiles.apply_rows(problem, lead, v, slice(head, head + 1), tile)
            out[here] = host(mended)[0, here - tile.start]


# What one pass over the keys can say of each row, in the order of the kernel's results.
ROWS = ("peak", "total", "lse", "entropy", "max_score", "max_key")


def run(problem: Problem, form: Form, lead: Array, v: Any, want: tuple[str, ...] = ()) -> tuple[Array, ...]:
    """A @ v by the chosen kernel for the heads of `lead`, flat, and names of ROWS in the same pass.

    v may be None, for the rows alone. -> out (heads, n_q, d_v), then what is wanted, each (heads, n_q): host arrays in
    the work dtype, max_key of integers.
    """
    heads, n_q = lead.reshape(-1), problem.shape[-2]
    described = Described(problem, form, heads, slice(0, n_q))
    out = None if v is None else np.empty((len(heads), n_q, v.shape[-1]), problem.work)
    rows = {name: np.empty((len(heads), n_q), np.int64 if name == "max_key" else problem.work) for name in want}
    core.apply(
        chosen(),
        described.problem,
        None if v is None else described.rows(v),
        lead.shape,
        range(len(heads)),
        0 if out is None else _address(out),
        tuple(_address(rows[name]) if name in rows else 0 for name in ROWS),
    )
    found = tuple(rows[name] for name in want)
    return found if out is None else (out, *found)


class Described:
    """A Problem as the kernels take it, for some heads (flat) and rows; holds what its addresses point to."""

    def __init__(self, problem: Problem, form: Form, heads: Array, rows: slice) -> None:
        self._keep: list[Any] = []
        sinks = None if problem.sinks is None else problem.sinks[heads % max(1, problem.n_heads)].astype(np.float64)
        self.problem = core.Problem(
            problem.lead,
            heads.tolist(),
            *problem.shape[-2:],
            self.rows(problem.q),
            self.rows(problem.k),
            problem.factor,
            problem.softcap or 0.0,
            self._spans(form.spans, (*problem.lead[:-1], problem.shape[-2])),
            self._cells(form.mask),
            self._cells(form.bias),
            self._table(form.by_distance),
            0 if sinks is None else self._own(sinks),
            (rows.start, rows.stop),
        )

    def rows(self, array: Any) -> tuple[int, Shape, Shape, int, int, int, int]:
        """q, k, v or x: address, sizes and byte steps of its leading axes, bytes a row and a column, width, dtype."""
        address, strides = self._layout(array)
        *lead, row, column = strides
        return (address, tuple(array.shape[:-2]), tuple(lead), row, column, array.shape[-1], DTYPES[dtype_name(array)])

    def _spans(self, spans: tuple[Array, Array] | None, shape: Shape) -> tuple[int, int, Shape, Shape] | None:
        """The spans of every batch entry's queries, one row an entry."""
        if spans is None:
            return None
        first, last = (np.ascontiguousarray(np.broadcast_to(each, shape), np.int64) for each in spans)
        steps = tuple(step // 8 for step in first.strides[:-1])
        sizes, steps = (shape[:-1], steps) if len(shape) == 1 else ((*shape[:-1], 1), (*steps, 0))
        return (self._own(first), self._own(np.maximum(first, last)), sizes, steps)

    def _cells(self, array: Array | None) -> tuple[int, Shape, Shape, int, int, int] | None:
        if array is None:
            return None
        array = array.reshape((1,) * max(0, 2 - array.ndim) + array.shape)
        address, strides = self._layout(array)
        row, key = (0 if size == 1 else step for size, step in zip(array.shape[-2:], strides[-2:], strict=True))
        return (address, array.shape[:-2], strides[:-2], row, key, DTYPES.get(array.dtype.name, 0))

    def _table(self, table: Array | None) -> tuple[int, Shape, Shape] | None:
        if table is None:
            return None
        table = np.ascontiguousarray(table, np.float64)
        return (self._own(table), table.shape[:-1], tuple(step // 8 for step in table.strides[:-1]))

    def _layout(self, array: Any) -> tuple[int, Shape]:
        """Address and strides, in bytes, of a NumPy array or a torch tensor."""
        self._keep.append(array)
        if not isinstance(array, np.ndarray):
            return array.data_ptr(), tuple(step * array.element_size() for step in array.stride())
        if not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
            self._keep.append(array)
        return _address(array), array.strides

    def _own(self, array: Array) -> int:
        self._keep.append(array)
        return _address(array)


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])
