"""Any library's array in, the same library's array out, on its device; a library is looked up, never imported.

q, k and v stay in the caller's library, and the walk computes there (`own`). Everything small or asked for cell by cell
(masks, ids, measures, single rows) is NumPy on the host (`view`, `floating`), a view of the caller's memory where the
library allows one. Nothing of the caller's is ever written to.
"""

import importlib
import sys
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from qkv._typing import Array, DType
from qkv.errors import ArgumentError, DTypeError, MissingError

FLOATS = ("float16", "bfloat16", "float32", "float64")
PLAIN = (np.ndarray, np.generic, list, tuple, int, float, complex, type(None))


@dataclass(frozen=True)
class Library:
    """The library and device that a caller's arrays belong to; xp is its array API namespace."""

    name: str
    device: str
    xp: Any = field(compare=False, repr=False)
    place: Any = field(compare=False, repr=False)

    def __reduce__(self) -> Any:
        """A namespace can't be pickled; the library is looked up again where it arrives."""
        return (_named, (self.name, self.device))

    def give(self, value: Any, dtype: Any = None) -> Any:
        """Host arrays, or a tuple of them, as arrays of the library on its device; a named tuple keeps its type."""
        if isinstance(value, tuple):
            parts = [self.give(part, dtype) for part in value]
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        if self.name == "numpy":
            return value if dtype is None else value.astype(dtype, copy=False)
        if not isinstance(value, np.ndarray | np.generic):
            return value if dtype is None else self.xp.astype(value, dtype, copy=False)
        given = self.xp.asarray(_plain(np.asarray(value)), device=self.place)
        if value.dtype.name == "bfloat16":
            dtype = self.xp.bfloat16
        return given if dtype is None else self.xp.astype(given, dtype, copy=False)


NUMPY = Library("numpy", "cpu", np, None)


def _named(name: str, device: str) -> Library:
    """The library of a pickled map, by the names that `Library` gives."""
    if name == "numpy":
        return NUMPY
    import array_api_compat

    module = importlib.import_module({"jax": "jax.numpy"}.get(name, name))
    empty = module.asarray(0.0) if name != "torch" else module.zeros((), device=device)
    return Library(name, device, array_api_compat.array_namespace(empty), array_api_compat.device(empty))


def library(value: Any) -> Library:
    """The library that a result for this input belongs to; lists and numbers belong to NumPy."""
    if isinstance(value, PLAIN):
        return NUMPY
    name = type(value).__module__.partition(".")[0]
    if name not in ("torch", "jaxlib", "jax", "cupy", "dask") and not hasattr(value, "__array_namespace__"):
        return NUMPY
    if name == "torch" and isinstance(value, sys.modules[name].Tensor):
        return _torch(value.device)
    compat = _compat(name)
    place = compat.device(value)
    return Library("jax" if name == "jaxlib" else name, str(place), compat.array_namespace(value), place)


def _compat(name: str) -> Any:
    """The package that gives arrays of every library the same functions."""
    try:
        import array_api_compat
    except ImportError:
        raise MissingError(f"arrays of {name} need array-api-compat: pip install 'qkv[arrays]'") from None
    return array_api_compat


@cache
def _torch(place: Any) -> Library:
    """Torch on a device; kept, for every call asks for each of its tensors."""
    empty = sys.modules["torch"].empty(0)
    return Library("torch", str(place), _compat("torch").array_namespace(empty), place)


def own(value: Any, name: str) -> tuple[Any, Library]:
    """`value` as a float array of its own library: integers, booleans and lists become the library's default float."""
    if type(value) is np.ndarray and dtype_name(value) in FLOATS:
        return value, NUMPY
    home = library(value)
    if home.name == "numpy":
        return floating(value, name), home
    _refuse(value, name)
    kind = dtype_name(value)
    if home.name == "torch":
        value = value.resolve_neg()  # a tensor that keeps its sign as a flag holds other numbers than it shows
    if kind in FLOATS:
        return value, home
    if home.xp.isdtype(value.dtype, ("bool", "integral")):
        return home.xp.astype(value, home.xp.asarray(0.5).dtype), home
    raise DTypeError(f"{name} has dtype {kind}; expected one of {', '.join(FLOATS)}")


def dtype_name(array: Any) -> str:
    """The plain name of an array's dtype: "float32", in whatever library."""
    return _name(array.dtype) if isinstance(array, np.ndarray) else str(array.dtype).rpartition(".")[2]


@cache
def _name(dtype: DType) -> str:
    """Kept, for NumPy works the name of a dtype out anew each time, and every call asks a few times."""
    return str(dtype.name)


def view(value: Any, name: str) -> Array:
    """`value` as a NumPy array on the host, sharing its memory where that is possible; `name` is for the error."""
    if isinstance(value, np.ma.MaskedArray):
        raise DTypeError(f"{name} is a numpy masked array; pass {name}.data and say what is hidden with mask=")
    home = library(value)
    if home.name != "numpy":
        _refuse(value, name)
        return host(value)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ArgumentError(f"{name} is not an array: {error}") from None
    if array.dtype == object:
        raise DTypeError(f"{name} has dtype object; expected numbers in rows of equal length")
    return array


def host(value: Any) -> Array:
    """An array of any library as NumPy on the host, without a copy where it lies there already."""
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    home = library(value)
    if home.name == "torch":
        plain = memory(value.cpu().resolve_conj().resolve_neg())
        return plain.view(bfloat16()) if dtype_name(value) == "bfloat16" else plain
    if home.name == "array_api_strict":
        return np.asarray(np.from_dlpack(home.xp.asarray(value, device=home.xp.Device("CPU_DEVICE"))))
    return np.asarray(value.get() if hasattr(value, "get") else value)


def memory(array: Any) -> Array:
    """A NumPy array, or a tensor on the CPU, as an array over the same memory; one of bfloat16 as 16-bit integers.

    NumPy's in native byte order, copied where it is not.
    """
    if isinstance(array, np.ndarray):
        return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    if array.requires_grad:
        array = array.detach()
    numbers: Array = (array.view(_torch(array.device).xp.int16) if dtype_name(array) == "bfloat16" else array).numpy()
    return numbers


def like(array: Array, other: Any) -> Any:
    """A host array in the library, on the device and of the dtype of `other`."""
    return library(other).give(array, other.dtype)


def in_order(array: Any) -> Any:
    """A NumPy array in C order, copied where it is not; others as they are, for their order is their library's."""
    return np.ascontiguousarray(array) if isinstance(array, np.ndarray) else array


def floating(value: Any, name: str) -> Array:
    """`value` on the host as one of the four float dtypes; integers, booleans and lists become float64."""
    array = view(value, name)
    if array.dtype.kind in "iub":
        return array.astype(np.float64)
    if dtype_name(array) not in FLOATS:
        raise DTypeError(f"{name} has dtype {array.dtype}; expected one of {', '.join(FLOATS)}")
    return array


def bfloat16() -> DType:
    """NumPy's name for bfloat16, which the package ml_dtypes gives it."""
    try:
        import ml_dtypes
    except ImportError:
        raise MissingError("bfloat16 arrays need ml_dtypes: pip install ml_dtypes") from None
    return np.dtype(ml_dtypes.bfloat16)


def work_dtype(dtype: DType) -> DType:
    """The dtype that inputs of `dtype` are computed in: float64 for float64, float32 for all others."""
    return np.dtype(np.float64 if dtype.name == "float64" else np.float32)


def restore(value: Any, home: Library) -> Any:
    """A host result as the caller's library wants it; tuples keep their type."""
    return home.give(value)


def _refuse(value: Any, name: str) -> None:
    """What a library can hold and no walk can compute with."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        if value.is_meta:
            raise DTypeError(f"{name} is on meta and has no numbers; pass a tensor on a device")
        if value.layout != torch.strided:
            raise DTypeError(f"{name} has layout {value.layout}; expected a strided tensor: pass {name}.to_dense()")
        if value.requires_grad and torch.is_grad_enabled():
            raise ArgumentError(
                f"{name} requires grad, and gradients through the map are not there yet: "
                f"pass {name}.detach(), or call under torch.no_grad()"
            )
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(value, jax.core.Tracer):
        raise ArgumentError(
            f"{name} is traced by jax; a map reads its numbers: call outside jax.jit, jax.grad and jax.vmap"
        )


def _plain(array: Array) -> Array:
    """An array that every library reads: contiguous, in native byte order, bfloat16 as float32."""
    if array.dtype.name == "bfloat16":
        array = array.astype(np.float32)
    return np.ascontiguousarray(array).reshape(np.shape(array))
