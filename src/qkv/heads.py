"""Several heads: project, split the width, attend in every part, join the parts, mix them with W_O.

Heads are an axis of their own before the positions, (…, n_heads, n, d): one call attends in all of them.
Source: Vaswani et al. 2017, section 3.2.2; several query heads to one key head: Ainslie et al. 2023.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Self

import numpy as np

from qkv._arrays import Library, floating, library, restore, view, work_dtype
from qkv._cache import KVCache
from qkv._map import AttentionMap, attend
from qkv._typing import Array, DType
from qkv.errors import ArgumentError, DTypeError, ShapeError
from qkv.measures.keys import value_norms

__all__ = ["KVCache", "MultiHead", "merge", "split"]

_MATRICES = ("w_q", "w_k", "w_v", "w_o")
_BIASES = ("b_q", "b_k", "b_v", "b_o")
_HINT = "; matrices are used as x @ w, so pass w.T where one is kept (out, in)"


def split(x: Any, n_heads: int) -> Any:
    """The width cut into heads: (…, n, n_heads·d) -> (…, n_heads, n, d), a view.

    Head h takes the columns h·d to (h + 1)·d.
    """
    _check_count("n_heads", n_heads)
    if len(x.shape) < 2 or x.shape[-1] % n_heads:
        raise ShapeError(f"x must have a width that n_heads = {n_heads} divides, got x.shape = {x.shape}")
    return x.reshape(*x.shape[:-1], n_heads, x.shape[-1] // n_heads).swapaxes(-3, -2)


def merge(heads: Any) -> Any:
    """The heads side by side: (…, n_heads, n, d) -> (…, n, n_heads·d); undoes `split` without a copy."""
    if len(heads.shape) < 3:
        raise ShapeError(f"heads must be (…, n_heads, n, d), got {heads.shape}; one head is heads[None]")
    rows = heads.swapaxes(-3, -2)
    return rows.reshape(*rows.shape[:-2], rows.shape[-2] * rows.shape[-1])


@dataclass(frozen=True, eq=False, repr=False)
class MultiHead:
    """An attention layer: n_heads heads between four matrices, each used as `x @ w`.

    w_q (d_model, n_heads·d_k), w_k (d_memory, n_kv_heads·d_k), w_v (d_values, n_kv_heads·d_v),
    w_o (n_heads·d_v, d_out); b_q, b_k, b_v, b_o are as long as their matrix has columns. Query head h reads
    key head h // (n_heads / n_kv_heads). The layer keeps references to the arrays and never writes to them.

        layer(x, causal=True)                    each position attends to itself and those before it
        layer(x, memory)                         keys and values from memory
        layer(x, memory, values)                 keys from memory, values from a third array
        layer(x, cache=cache, causal=True)       the positions that follow those in the cache
        layer.map(x, causal=True)[h]             the weights of head h

    x is (n, d_model) or (…, n, d_model); every further keyword is one of `qkv.attend`.
    """

    w_q: Array
    w_k: Array
    w_v: Array
    w_o: Array
    n_heads: int
    n_kv_heads: int | None = None
    b_q: Array | None = None
    b_k: Array | None = None
    b_v: Array | None = None
    b_o: Array | None = None

    def __post_init__(self) -> None:
        given = {name: getattr(self, name) for name in _MATRICES + _BIASES}
        arrays = {name: floating(value, name) for name, value in given.items() if value is not None}
        n_kv_heads = self.n_heads if self.n_kv_heads is None else self.n_kv_heads
        _check_counts(self.n_heads, n_kv_heads)
        _check_one_dtype(arrays)
        _check_matrices(arrays, self.n_heads, n_kv_heads)
        _check_biases(arrays)
        for name, value in (*arrays.items(), ("n_kv_heads", n_kv_heads)):
            object.__setattr__(self, name, value)

    @classmethod
    def from_arrays(
        cls,
        mapping: Mapping[str, Any],
        names: Mapping[str, str],
        n_heads: int,
        n_kv_heads: int | None = None,
        *,
        transpose: bool = False,
    ) -> Self:
        """A layer from named arrays, such as the content of a safetensors file.

        names says which array is which, {"w_q": "layer.0.query.weight", "b_q": "layer.0.query.bias", …};
        biases may be left out. transpose=True is for matrices kept (out, in), as torch.nn.Linear keeps them.
        """
        if unknown := sorted(set(names) - {*_MATRICES, *_BIASES}):
            raise ArgumentError(f"names may hold {', '.join(_MATRICES + _BIASES)}, got {', '.join(unknown)}")
        if lacking := [name for name in _MATRICES if name not in names]:
            raise ArgumentError(f"names must say which array is {', '.join(lacking)}, got {dict(names)}")
        arrays = {name: _look_up(mapping, name, key) for name, key in names.items()}
        if transpose:
            arrays |= {name: view(arrays[name], name).T for name in _MATRICES}
        return cls(**arrays, n_heads=n_heads, n_kv_heads=n_kv_heads)

    @property
    def d_k(self) -> int:
        """Width of one head's queries and keys."""
        return int(self.w_q.shape[1]) // self.n_heads

    @property
    def d_v(self) -> int:
        """Width of one head's values."""
        return int(self.w_o.shape[0]) // self.n_heads

    @property
    def dtype(self) -> DType:
        """The dtype of the matrices, of x and of the output."""
        return self.w_q.dtype

    def __call__(
        self, x: Any, memory: Any = None, values: Any = None, *, cache: KVCache | None = None, **options: Any
    ) -> Any:
        """The layer's output, (…, n_q, d_out).

        With a cache the keys and values of x join those in it, and the queries of x attend to them all:
        causal=True lets the last query see the last key, so that chunks of any size give what one call
        gives. A call that fails leaves the cache as it was.
        """
        _check_cache(cache, memory)
        q, k, v = self.project(x, memory, values)
        if cache is None:
            return self.combine(attend(q, k, **options) @ v)
        with cache.appending(k, v) as (all_k, all_v):
            return self.combine(attend(q, all_k, **options) @ all_v)

    def map(self, x: Any, memory: Any = None, *, cache: KVCache | None = None, **options: Any) -> AttentionMap:
        """The weights of every head as one lazy map, (…, n_heads, n_q, n_k); an index picks a head.

        With a cache it is the map of the call that would come next: the keys of x stand after those in the
        cache, and the cache stays as it is. So ask for the map before the call.
        """
        _check_cache(cache, memory)
        rows, keys = self._sources(x, memory)
        kind = library(x)
        q, k = self._heads(rows, "q", kind), self._heads(keys, "k", kind)
        return attend(q, k if cache is None else cache.preview(k), **options)

    def project(self, x: Any, memory: Any = None, values: Any = None) -> tuple[Any, Any, Any]:
        """The heads q (…, n_heads, n_q, d_k), k (…, n_kv_heads, n_k, d_k), v (…, n_kv_heads, n_k, d_v)."""
        rows, keys = self._sources(x, memory)
        source = "x" if memory is None else "memory"
        carried = self._rows(source, keys, "w_v") if values is None else self._rows("values", values, "w_v")
        if carried.shape[:-1] != keys.shape[:-1]:
            raise ShapeError(
                f"values must have one row for each row of {source}, got values.shape = {carried.shape} and "
                f"{source}.shape = {keys.shape}; all axes but the last must be equal"
            )
        kind = library(x)
        return self._heads(rows, "q", kind), self._heads(keys, "k", kind), self._heads(carried, "v", kind)

    def combine(self, heads: Any) -> Any:
        """merge(heads) @ w_o + b_o: (…, n_heads, n_q, d_v) -> (…, n_q, d_out)."""
        parts = floating(heads, "heads")
        if parts.ndim < 3 or (parts.shape[-3], parts.shape[-1]) != (self.n_heads, self.d_v):
            raise ShapeError(
                f"heads must be (…, n_heads, n_q, d_v) = (…, {self.n_heads}, n_q, {self.d_v}), got "
                f"{parts.shape}; it takes what a map of this layer gives as A @ v"
            )
        return restore(_affine(merge(parts), self.w_o, self.b_o), library(heads))

    def value_norms(self, v: Any) -> Any:
        """How much a key can move the output: ‖v_j W_O‖, (…, n_kv_heads, n_k, d_v) -> (…, n_heads, n_k).

        W_O is here the d_v rows of w_o that belong to the head. A large weight on a short vector moves
        little, whatever a picture of the weights suggests.
        Source: Kobayashi et al. 2020, "Attention is not only a weight".
        """
        array, group = floating(v, "v"), self.n_heads // self._n_kv_heads
        work = work_dtype(self.dtype)
        norms = np.empty((*array.shape[:-3], self.n_heads, array.shape[-2]), work)
        for h in range(self.n_heads):
            rows = self.w_o[h * self.d_v : (h + 1) * self.d_v]
            norms[..., h, :] = value_norms(array[..., h // group, :, :], rows, work)
        return restore(norms, library(v))

    def __repr__(self) -> str:
        return (
            f"MultiHead(n_heads={self.n_heads}, n_kv_heads={self.n_kv_heads}, d_model={self.w_q.shape[0]}, "
            f"d_k={self.d_k}, d_v={self.d_v}, d_out={self.w_o.shape[1]}, {self.dtype})"
        )

    @property
    def _n_kv_heads(self) -> int:
        return self.n_heads if self.n_kv_heads is None else self.n_kv_heads

    def _sources(self, x: Any, memory: Any) -> tuple[Array, Array]:
        """The rows that give the queries and those that give the keys."""
        rows = self._rows("x", x, "w_q")
        if memory is None:
            return rows, self._rows("x", rows, "w_k")
        keys = self._rows("memory", memory, "w_k")
        if keys.shape[:-2] != rows.shape[:-2]:
            raise ShapeError(
                f"memory must have the batch axes of x, {rows.shape[:-2]}, got {keys.shape[:-2]} "
                f"(x.shape = {rows.shape}, memory.shape = {keys.shape}); repeat one with numpy.broadcast_to"
            )
        return rows, keys

    def _rows(self, name: str, value: Any, matrix: str) -> Array:
        """The value as (…, n, width) rows for x @ w; lists and integers take the dtype of the layer."""
        array = floating(value, name)
        if not hasattr(value, "dtype") or view(value, name).dtype.kind in "iub":
            array = array.astype(self.dtype)
        if array.dtype != self.dtype:
            raise DTypeError(f"{name} is {array.dtype} but the layer is {self.dtype}; cast one of the two")
        width = getattr(self, matrix).shape[0]
        if array.ndim < 2 or array.shape[-1] != width:
            raise ShapeError(
                f"{name} must be (…, n, {width}), as {matrix} has {width} rows, got "
                f"{name}.shape = {array.shape}; a single position is {name}[None]"
            )
        return array

    def _heads(self, rows: Array, part: str, kind: Library) -> Any:
        """The rows projected with w_part and b_part, split into heads."""
        n_heads = self.n_heads if part == "q" else self._n_kv_heads
        projected = _affine(rows, getattr(self, f"w_{part}"), getattr(self, f"b_{part}"))
        return restore(split(projected, n_heads), kind)


def _affine(x: Array, w: Array, b: Array | None) -> Array:
    """The product x @ w + b in the dtype of x; 16-bit arrays are summed in float32."""
    wide = work_dtype(x.dtype)
    # a padding row may hold inf or NaN, which stays in its own row: no reason to warn
    with np.errstate(invalid="ignore"):
        y: Array = x.astype(wide, copy=False) @ w.astype(wide, copy=False)
        if b is not None:
            y += b
    return y.astype(x.dtype, copy=False)


def _check_cache(cache: KVCache | None, memory: Any) -> None:
    if cache is not None and memory is not None:
        raise ArgumentError(
            "cache and memory were both given, but a cache grows by the keys of x; for a memory that stays "
            "the same, keep k and v of layer.project(x, memory) and call layer.combine(attend(q, k) @ v)"
        )


def _check_count(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ArgumentError(f"{name} must be a whole number of at least 1, got {value!r}")


def _check_counts(n_heads: int, n_kv_heads: int) -> None:
    _check_count("n_heads", n_heads)
    _check_count("n_kv_heads", n_kv_heads)
    if n_heads % n_kv_heads:
        raise ArgumentError(
            f"n_kv_heads must divide n_heads, got n_heads = {n_heads} and n_kv_heads = {n_kv_heads}; "
            f"each key head serves the same number of query heads"
        )


def _check_one_dtype(arrays: dict[str, Array]) -> None:
    if len({array.dtype for array in arrays.values()}) > 1:
        came = ", ".join(f"{name} {array.dtype}" for name, array in arrays.items())
        raise DTypeError(f"the matrices and biases need one dtype, got {came}; cast them to one")


def _check_matrices(arrays: dict[str, Array], n_heads: int, n_kv_heads: int) -> None:
    """Each matrix against the others: what its columns or rows must count."""
    for name in _MATRICES:
        if arrays[name].ndim != 2:
            raise ShapeError(f"{name} must be a matrix (in, out), got {name}.shape = {arrays[name].shape}")
    for name, what, count in (("w_q", "n_heads", n_heads), ("w_v", "n_kv_heads", n_kv_heads)):
        if arrays[name].shape[1] % count:
            raise ShapeError(
                f"{name} must have columns that {what} = {count} divides, got "
                f"{name}.shape = {arrays[name].shape}{_HINT}"
            )
    d_k, d_v = arrays["w_q"].shape[1] // n_heads, arrays["w_v"].shape[1] // n_kv_heads
    expected = (
        ("w_k", 1, "columns", n_kv_heads * d_k, f"n_kv_heads · d_k = {n_kv_heads} · {d_k}"),
        ("w_o", 0, "rows", n_heads * d_v, f"n_heads · d_v = {n_heads} · {d_v}"),
    )
    for name, axis, side, size, reason in expected:
        if arrays[name].shape[axis] != size:
            raise ShapeError(
                f"{name} must have {size} {side}, {reason}, got {arrays[name].shape[axis]} "
                f"({', '.join(f'{other}.shape = {arrays[other].shape}' for other in _MATRICES)}){_HINT}"
            )


def _check_biases(arrays: dict[str, Array]) -> None:
    for name in _BIASES:
        matrix = "w_" + name[-1]
        if name in arrays and arrays[name].shape != arrays[matrix].shape[1:]:
            raise ShapeError(
                f"{name} must have shape {arrays[matrix].shape[1:]}, one number for each column of {matrix}, "
                f"got {arrays[name].shape}"
            )


def _look_up(mapping: Mapping[str, Any], name: str, key: str) -> Any:
    if key in mapping:
        return mapping[key]
    near = get_close_matches(key, list(mapping), n=3, cutoff=0.3)
    raise ArgumentError(f"mapping has no array {key!r}, which names gives for {name}; the nearest are {near}")
