"""Maps beside PyTorch: recorded while a model runs, and taken as tensors by code that was written for dense weights.

    A = record(q, k, causal=True)     detached, and nothing that happens to q or k later changes it
    torch.stack([A, A]), A.mean(1)    computes the weights when they are asked for, at most 1 GiB of them
    join([A_prompt, A_step, A_step])  the steps of a generation as one map

Importing this module imports torch; `import qkv` does not.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np

from qkv._map import AttentionMap
from qkv._problem import Problem, refuse_bytes
from qkv._typing import Shape
from qkv.errors import ArgumentError, MissingError, ShapeError
from qkv.scores import Score

try:
    import torch
except ImportError:
    raise MissingError("qkv.torch needs PyTorch: pip install torch") from None

__all__ = ["TensorMap", "join", "record"]


class TensorMap(AttentionMap):
    """An AttentionMap of tensors, detached, that torch functions and tensor methods take for its dense weights.

    What a map can do lazily stays lazy: `A[0]`, `A @ v`, `torch.matmul(A, v)`, `A.shape`, `A.size(-1)`, `A.detach()`.
    Anything else (`torch.stack`, `A.mean(1)`, `A * 2`, `A > 0.1`) computes the weights, and raises DenseError where
    they would take more than 1 GiB. Nothing writes into a map: `A.dense()` is a tensor to write into.
    """

    requires_grad = False

    @property
    def device(self) -> torch.device:
        device: torch.device = self._problem.q.device if isinstance(self._problem.q, torch.Tensor) else _CPU
        return device

    @property
    def size(self) -> "_Size":
        """Number of cells; as a method, `A.size()` and `A.size(-1)` are the lengths of the axes, as torch has it."""
        return _Size(self.shape)

    @property
    def sinks(self) -> Any:
        """The score of each head's sink, (n_heads,) nats, or None."""
        every = self._problem.sinks
        own = None if every is None else every[self._lead % self._problem.n_heads]
        if own is None or own.ndim < 2:
            return own
        if (own != own[(0,) * (own.ndim - 1)]).any():
            raise ArgumentError("this map has other heads in each batch, so there is no one sink for each head")
        return own[(0,) * (own.ndim - 1)]

    def dim(self) -> int:
        """Number of axes."""
        return self.ndim

    def numel(self) -> int:
        """Number of cells."""
        return int(self.size)

    def detach(self) -> "TensorMap":
        """The map itself: no graph hangs on it."""
        return self

    def cpu(self) -> Any:
        """The map itself where it lies on the CPU already, else its dense weights there."""
        return self.to("cpu")

    def to(self, *where: Any, **how: Any) -> Any:
        """The map itself where `Tensor.to` would change nothing, else its dense weights there."""
        empty = torch.empty(0, dtype=self.dtype, device=self.device).to(*where, **how)
        if empty.dtype == self.dtype and empty.device == self.device:
            return self
        return self[..., :, :].to(*where, **how)

    def __matmul__(self, v: Any) -> Any:
        values = _dense(v)
        if isinstance(values, torch.Tensor) and values.ndim > self.ndim:
            return _on_dense(torch.matmul, (self, values), {})
        if isinstance(values, torch.Tensor) and 1 < values.ndim < self.ndim:  # torch lets the leading axes be absent
            values = values[(None,) * (self.ndim - values.ndim)]
        return super().__matmul__(values)

    def __getattr__(self, name: str) -> Any:
        """Whatever else a tensor has, from the dense weights."""
        found = None if name.startswith("_") else getattr(torch.Tensor, name, None)
        if found is None:
            raise AttributeError(f"an AttentionMap has no {name!r}, and neither has a tensor")
        if callable(found):
            return lambda *args, **how: _on_dense(found, (self, *args), how)
        return getattr(self[..., :, :], name)

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func in _PRODUCTS and len(args) == 2 and not kwargs:
            left, right = args
            if isinstance(left, TensorMap):
                return left @ right
            if left.ndim in {1, right.ndim}:
                return right.__rmatmul__(left)
        return _on_dense(func, args, kwargs or {})

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, detached)"


class _Size(int):
    """A number of cells that can be called for the lengths of the axes."""

    shape: torch.Size

    def __new__(cls, shape: Shape) -> Self:
        size = super().__new__(cls, math.prod(shape))
        size.shape = torch.Size(shape)
        return size

    def __call__(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]


_CPU = torch.device("cpu")
_PRODUCTS = {torch.matmul, torch.bmm, torch.Tensor.matmul, torch.Tensor.bmm, torch.Tensor.__matmul__}
_SUMS = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow"]
_OPERATORS = [*_SUMS, *(f"r{name}" for name in _SUMS), "neg", "abs", "lt", "le", "gt", "ge", "eq", "ne"]


def _operator(name: str) -> Callable[..., Any]:
    found = getattr(torch.Tensor, name)

    def of_dense(self: TensorMap, *other: Any) -> Any:
        return _on_dense(found, (self, *other), {})

    return of_dense


for _name in _OPERATORS:
    setattr(TensorMap, f"__{_name}__", _operator(f"__{_name}__"))
TensorMap.__hash__ = object.__hash__  # type: ignore[method-assign]  # `==` is by cell, as a tensor's


def _on_dense(func: Callable[..., Any], args: tuple[Any, ...], how: Mapping[str, Any]) -> Any:
    """func with the dense weights in place of every map among its arguments, 1 GiB of them at most."""
    name = str(getattr(func, "__name__", func))
    in_place = name.endswith("_") and not name.endswith("__")
    if isinstance(how.get("out"), TensorMap) or (in_place and args and isinstance(args[0], TensorMap)):
        raise ArgumentError(f"{name} would write into a map, and a map is never written; call it on A.dense()")
    size = sum(each.numel() * each.dtype.itemsize for each in _maps((args, tuple(how.values()))))
    refuse_bytes(size, f"{name} takes dense weights: index the maps first, or take a measure such as A.image(512)")
    return func(*_dense(args), **_dense(dict(how)))


def _maps(value: Any) -> Iterator[TensorMap]:
    if isinstance(value, TensorMap):
        yield value
    elif isinstance(value, tuple | list):
        for each in value:
            yield from _maps(each)


def _dense(value: Any) -> Any:
    """`value` with dense weights in place of the maps in it; an index that names n_q keeps the rule about 1 GiB."""
    if isinstance(value, TensorMap):
        return value[..., :, :]
    if isinstance(value, dict):
        return {name: _dense(each) for name, each in value.items()}
    if type(value) in {tuple, list}:
        return type(value)(_dense(each) for each in value)
    return value


@dataclass(frozen=True)
class _Kept(Score):
    """Scores that were computed before, in place of q and k. They are looked up: bit for bit what they were.

    Row i of q holds those of query i over all keys, in `parts` numbers that add up where one of the dtype of q is too
    short: Σ part_p / 2048^p. Row j of k holds the digits of j, by which a tile knows its keys. scale_kept: the scale
    that the scores contain.
    """

    parts: int
    scale_kept: float

    def of(self, q: Any, k: Any, factor: float) -> Any:
        first = sum(int(digit) * _BASE**place for place, digit in enumerate(k[0, 0].tolist()))
        n_k = q.shape[-1] // self.parts
        starts = [part * n_k + first for part in range(self.parts)]
        kept = [q[..., start : start + k.shape[1]] / _STEP**part for part, start in enumerate(starts)]
        whole = sum(kept[1:], start=kept[0])
        return whole if factor == self.scale_kept else whole * (factor / self.scale_kept)


_BASE, _DIGITS = 128, 5  # digits that every float dtype holds exactly, for up to 128⁵ = 3.4e10 keys
_STEP = 2.0**11  # what the first part of a score leaves is this much smaller, beyond the least float16


def _keep(scores: torch.Tensor, dtype: torch.dtype, scale: float, **how: Any) -> TensorMap | None:
    """A map of these scores, (…, n_heads, n_q, n_k), times 1; None where the dtype of the map can't hold them."""
    parts, rest = [], scores
    for power in range(_parts(dtype)):
        parts.append((rest * _STEP**power).to(dtype))
        rest = rest - parts[-1].to(rest.dtype) / _STEP**power
    if rest.any():  # inf, NaN, or out of the range of float16
        return None
    n_k = scores.shape[-1]
    place = _BASE ** torch.arange(_DIGITS, device=scores.device)
    digits = (torch.arange(n_k, device=scores.device)[:, None] // place % _BASE).to(dtype)
    k = digits.expand(*(1,) * (scores.ndim - 2), n_k, _DIGITS)
    kept = _Kept(len(parts), scale)
    return TensorMap(Problem.of(torch.cat(parts, -1), k, score=kept, scale=scale, **how))


def _parts(dtype: torch.dtype) -> int:
    return 3 if dtype.itemsize == 2 else 1  # 3 × 8 bits of bfloat16 are the 24 of float32


def record(q: torch.Tensor, k: torch.Tensor, **how: Any) -> TensorMap:
    """`qkv.attend(q, k, **how)` as it is now: detached, and unchanged whatever happens to q and k afterwards.

    q: (…, n_heads, n_q, d_k), k: (…, n_kv_heads, n_k, d_k). Where the scores are smaller than q and k, as for one
    query in a step of a generation, they are kept instead; else q and k are copied. Masks and biases are held as given.
    """
    live = TensorMap(Problem.of(q.detach(), k.detach(), **how))
    if how.get("score") is None and how.get("temperature") is None and live.numel():
        scale = how.pop("scale", None)
        scale = q.shape[-1] ** -0.5 if scale is None else float(scale)
        if scale and live.numel() * _parts(live.dtype) < q.numel() + k.numel():
            kept = _keep(live.scores("raw").dense(), live.dtype, scale, **how)
            if kept is not None:
                return kept
        how["scale"] = scale
    return TensorMap(Problem.of(q.detach().clone(), k.detach().clone(), **how))


def join(maps: Sequence[TensorMap]) -> TensorMap:
    """The maps of a prompt and of the steps after it as one: (…, n_1, m_1), (…, n_2, m_2), … -> (…, Σ n, last m).

    Each map's queries come after the queries of the one before, over the same keys and new ones. Its scores are those
    that the softmax sees, at every stage; they are held in memory, n_q × n_k of them, 1 GiB at most.
    """
    last = maps[-1].shape if maps else ()
    size = sum(each.shape[-2] for each in maps) * math.prod(last[:-2]) * last[-1] * 8 if maps else 0
    if not maps or any(each.shape[:-2] != last[:-2] for each in maps):
        raise ShapeError(f"join takes maps of the same heads, but got shapes {[each.shape for each in maps]}")
    refuse_bytes(size, "join holds the scores of all steps; join fewer of them")
    scores = [each.scores("biased")[..., :, :] for each in maps]
    _check_order(scores)
    rows = [torch.nn.functional.pad(part, (0, last[-1] - part.shape[-1]), value=-math.inf) for part in scores]
    whole = torch.cat(rows, -2)
    sees = ~torch.isneginf(whole)
    how = {"mask": sees, "sinks": maps[-1].sinks}
    joined = _keep(whole.where(sees, 0), maps[-1].dtype, 1.0, **how)
    return _keep(whole.where(sees, 0), whole.dtype, 1.0, **how) if joined is None else joined  # type: ignore[return-value]


def _check_order(scores: list[torch.Tensor]) -> None:
    """The last key that a step sees lies as many keys further as the step has queries, or its columns have moved."""
    ends = [int(np.flatnonzero((part > -math.inf).flatten(0, -2).any(0).numpy(force=True))[-1]) for part in scores]
    for step, (before, part) in enumerate(pairwise(scores), 1):
        wanted = ends[step - 1] + part.shape[-2]
        if ends[step] != wanted or part.shape[-1] < before.shape[-1]:
            raise ShapeError(
                f"map {step} sees keys up to {ends[step]}; expected up to {wanted}, its {part.shape[-2]} queries after "
                "the map before. A cache with a window drops keys, and without a cache the last map is whole by itself"
            )
