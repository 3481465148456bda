"""The compiled kernels: which of them can run here, whether one can run a Problem, and the call of A @ v.

A kernel takes every Problem with a dot-product score, in NumPy or torch on the CPU, whose mask is spans of keys and at
most one dense array, and whose bias is at most one dense array and functions of the distance. Everything else goes to
the tile walk, and `A.plan()` says why. Rows that hold NaN or an infinity are computed again by the walk, so that what
they show is what it shows. The other passes are called in `_cells.py` and `_scan.py`.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from qkv import _progress, _tiles, biases, masks, scores
from qkv._arrays import dtype_name, host, memory
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
    return list(_kernels(_wanted()))


def chosen() -> str:
    """The name of the kernel that runs: "walk" where there is none."""
    return _chosen(_wanted())


def _wanted() -> str | None:
    """What QKV_KERNEL says now; os.environ takes ten times as long to say it."""
    return os.environ.get("QKV_KERNEL") if core is None else core.environment("QKV_KERNEL")


@cache
def _chosen(wanted: str | None) -> str:
    return next(kernel.name for kernel in _kernels(wanted) if kernel.chosen)


def set_num_threads(n: int | None) -> None:
    """How many threads a kernel may use; None goes back to OMP_NUM_THREADS, or the CPUs of this process.

    What threadpoolctl or torch.set_num_threads limits while the process runs stays a limit: the smaller number counts.
    """
    if n is not None and (isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1):
        raise ArgumentError(f"n of set_num_threads is {n!r}; expected an integer >= 1, or None for the default")
    if core is not None:
        core.set_threads(0 if n is None else int(n))


class Form(NamedTuple):
    """A Problem's mask and bias as a kernel reads them; None where there is nothing of that form."""

    spans: tuple[Array, Array] | None = None  # the first key of each query and the one behind its last
    mask: Array | None = None
    bias: Array | None = None
    by_distance: Array | None = None


def refusal(problem: Problem) -> str | None:
    """Why the kernels can't run this Problem, in words, or None; reads no array."""
    if chosen() == "walk":
        return "no kernel is chosen" if core is not None else "the compiled part of the package is not there"
    if problem.library.name not in ("numpy", "torch") or problem.library.device != "cpu":
        return f"the arrays are of {problem.library.name} on {problem.library.device}"
    if type(problem.score) is not scores.Dot:
        return f"the score is {type(problem.score).__name__}"
    if problem.mask is None and problem.bias is None:
        return None
    rules = [rule for rule in masks.parts(problem.mask) if not rule.has_spans]
    if rules and not (len(rules) == 1 and isinstance(rules[0], masks.dense)):
        return f"the mask {problem.mask!r} is more than spans of keys and one array"
    added = [part for part in biases.parts(problem.bias) if not part.is_by_distance]
    if added and not (len(added) == 1 and isinstance(added[0], biases.dense)):
        return f"the bias {problem.bias!r} is more than functions of the distance and one array"
    return None


def form(problem: Problem) -> Form:
    """The mask and bias of a Problem that `refusal` has nothing against."""
    if problem.mask is None and problem.bias is None:
        return Form()
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
    out = _room(problem, lead.shape, v)
    return settle(problem, lead, v, out, _call(problem, form(problem), lead, v, out))


def settle(problem: Problem, lead: Array, v: Any, out: Any, finite: bool) -> Any:
    """A @ v from what a kernel wrote, (*lead, n_q, d_v): not finite rows computed again, in the dtype of q."""
    if not finite:
        _mend(problem, lead, v, host(out).reshape(lead.size, *out.shape[-2:]))
    if out.dtype == problem.dtype:
        return out
    with np.errstate(over="ignore"):
        return problem.library.give(out, problem.dtype)


def _mend(problem: Problem, lead: Array, v: Any, out: Array) -> None:
    """Compute the rows that are not finite again: NaN and infinities are the walk's to show, it knows who sees them."""
    odd = np.logical_not(np.isfinite(out).all(axis=-1))
    for head in np.flatnonzero(odd.any(axis=-1)):
        for tile in problem.row_tiles:
            here = np.flatnonzero(odd[head, tile])
            if here.size:
                mended = _tiles.apply_rows(problem, lead, v, slice(head, head + 1), tile)
                out[head, tile.start + here] = host(mended)[0, here]


# What one pass over the keys can say of each row, in the order of the kernel's results.
ROWS = ("peak", "total", "lse", "entropy", "max_score", "max_key")
NOTHING = (None,) * len(ROWS)


def run(problem: Problem, form: Form, lead: Array, v: Any, want: tuple[str, ...] = ()) -> tuple[Any, ...]:
    """A @ v by the chosen kernel for the heads of `lead`, flat, and names of ROWS in the same pass.

    -> out (heads, n_q, d_v) in the caller's library, then what is wanted, each (heads, n_q), on the host: all in the
    work dtype, but max_key of integers.
    """
    shape = (lead.size, problem.shape[-2])
    rows = {name: np.empty(shape, np.int64 if name == "max_key" else problem.work) for name in want}
    out = _room(problem, shape[:1], v)
    _call(problem, form, lead, v, out, tuple(rows.get(name) for name in ROWS))
    return (out, *rows.values())


def _room(problem: Problem, lead: Shape, v: Any) -> Any:
    """Where a kernel writes A @ v: (*lead, n_q, d_v) in the caller's library and the work dtype."""
    return problem.library.xp.empty((*lead, problem.shape[-2], v.shape[-1]), dtype=problem.work_own)


def _call(problem: Problem, form: Form, lead: Array, v: Any, out: Any, rows: Any = NOTHING) -> bool:
    """Have the chosen kernel fill `out` and `rows`: -> whether all of `out` is finite."""
    described = Described(problem, form, lead.reshape(-1), slice(0, problem.shape[-2]))
    finite = core.apply(chosen(), described.problem, described.rows(v), lead.shape, memory(out), rows)
    _progress.finished(lead.size * problem.shape[-2])
    return finite


def merge(outs: Sequence[Array], sums: Sequence[Array]) -> tuple[Array, Array]:
    """Attention over all keys from out (…, d_v) and lse (…), nats, over parts of them, in the dtype of the sums."""
    out, lse = (np.empty(first.shape, sums[0].dtype) for first in (outs[0], sums[0]))
    parts, weights = ([np.ascontiguousarray(memory(each)) for each in kind] for kind in (outs, sums))
    with _progress.quietly():
        core.merge(chosen(), parts, weights, DTYPES[dtype_name(outs[0])], out, lse)
    return out, lse[()]


class Described:
    """A Problem as the kernels take it, for some heads (flat) and rows; it holds its arrays."""

    def __init__(self, problem: Problem, form: Form, heads: Array, rows: slice) -> None:
        n_q, n_k = problem.shape[-2:]
        first, last = (None, None) if form.spans is None else _spans(*form.spans)
        sinks = None if problem.sinks is None else problem.sinks[heads % max(1, problem.n_heads)]
        self.problem = core.Problem(
            problem.lead,
            heads.tolist(),
            n_q,
            n_k,
            DTYPES[dtype_name(problem.q)],
            memory(problem.q),
            memory(problem.k),
            problem.factor,
            problem.softcap or 0.0,
            first,
            last,
            form.mask,
            None if form.bias is None else memory(form.bias),
            0 if form.bias is None else DTYPES[dtype_name(form.bias)],
            None if form.by_distance is None else np.ascontiguousarray(form.by_distance, np.float64),
            sinks,
            rows.start,
            rows.stop,
        )

    def rows(self, array: Any) -> Array:
        """What is multiplied, v or x, as the kernels take it: numbers of the dtype of q."""
        return memory(array)


def _spans(first: Array, last: Array) -> tuple[Array, Array]:
    """Spans (…batch axes, n_q) as the kernels read them, with an axis for the heads, which share them."""
    first = np.ascontiguousarray(first, np.int64)
    last = np.ascontiguousarray(np.maximum(first, last), np.int64)
    return (first, last) if first.ndim == 1 else (first[..., None, :], last[..., None, :])
