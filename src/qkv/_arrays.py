"""Any library's array in, the same library's array out; a library is looked up, never imported.

Inside the package there are NumPy arrays only: views of the caller's memory, never written to.
"""

import sys
from typing import Any

import numpy as np

from qkv._typing import Array, DType
from qkv.errors import ArgumentError, DTypeError, MissingError

FLOATS = ("float16", "bfloat16", "float32", "float64")


def is_torch(value: object) -> bool:
    """Whether `value` is a tensor of a torch that is already loaded."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def library(value: object) -> str:
    """The library that a result for this input belongs to: "numpy" or "torch"."""
    return "torch" if is_torch(value) else "numpy"


def view(value: Any, name: str) -> Array:
    """`value` as a NumPy array that shares its memory where it has any; `name` is for the error."""
    if is_torch(value):
        return _view_tensor(value, name)
    if isinstance(value, np.ma.MaskedArray):
        raise DTypeError(f"{name} is a numpy masked array; pass {name}.data and say what is hidden with mask=")
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ArgumentError(f"{name} is not an array: {error}") from None
    if array.dtype == object:
        raise DTypeError(f"{name} has dtype object; expected numbers in rows of equal length")
    return array


def _view_tensor(value: Any, name: str) -> Array:
    torch = sys.modules["torch"]
    if value.device.type != "cpu":
        raise DTypeError(f"{name} is on {value.device}; this version computes on the CPU: pass {name}.cpu()")
    if value.layout != torch.strided:
        raise DTypeError(f"{name} has layout {value.layout}; expected a strided tensor: pass {name}.to_dense()")
    if value.requires_grad and torch.is_grad_enabled():
        raise ArgumentError(
            f"{name} requires grad, and gradients through the map are not there yet: "
            f"pass {name}.detach(), or call under torch.no_grad()"
        )
    plain = value.detach().resolve_conj().resolve_neg()
    if plain.dtype == torch.bfloat16:
        return np.asarray(plain.view(torch.int16).numpy().view(bfloat16()))
    return np.asarray(plain.numpy())


def bfloat16() -> DType:
    """NumPy's name for bfloat16, which the package ml_dtypes gives it."""
    try:
        import ml_dtypes
    except ImportError:
        raise MissingError("bfloat16 arrays need ml_dtypes: pip install ml_dtypes") from None
    return np.dtype(ml_dtypes.bfloat16)


def floating(value: Any, name: str) -> Array:
    """`value` as an array of one of the four float dtypes; integers, booleans and lists become float64."""
    array = view(value, name)
    if array.dtype.kind in "iub":
        return array.astype(np.float64)
    if array.dtype.name not in FLOATS:
        raise DTypeError(f"{name} has dtype {array.dtype}; expected one of {', '.join(FLOATS)}")
    return array


def work_dtype(dtype: DType) -> DType:
    """The dtype that inputs of `dtype` are computed in: float64 for float64, float32 for all others."""
    return np.dtype(np.float64 if dtype.name == "float64" else np.float32)


def restore(value: Any, kind: str) -> Any:
    """A result as the caller's library wants it; tuples keep their type."""
    if kind == "numpy":
        return value
    if isinstance(value, tuple):
        parts = [restore(part, kind) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    torch = sys.modules["torch"]
    array = np.ascontiguousarray(value)
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16).reshape(np.shape(value))
    return torch.from_numpy(array).reshape(np.shape(value))
