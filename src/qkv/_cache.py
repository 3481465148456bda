"""The keys and values of all positions so far, for decoding step by step."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from qkv._arrays import NUMPY, Library, floating, library, restore
from qkv._typing import Array
from qkv.errors import DTypeError, ShapeError

_WAY_OUT = "One cache serves one layer and one batch; start the next with KVCache()"


class KVCache:
    """Keys (…, n_kv_heads, n, d_k) and values (…, n_kv_heads, n, d_v) that grow by appending; `len` counts.

    It starts empty and takes its shape and dtype from the first append. A full buffer doubles, so that a key
    is copied twice on average however many follow. `copy.deepcopy` gives a branch of its own.
    """

    def __init__(self) -> None:
        self._k: Array | None = None
        self._v: Array | None = None
        self._length = 0

    def append(self, k: Any, v: Any) -> tuple[Any, Any]:
        """All keys and values so far, these last: two read-only views that no later append changes.

        k is (…, n_kv_heads, n, d_k) and v (…, n_kv_heads, n, d_v); one head may be (n, d). An append that
        fails leaves the cache as it was.
        """
        new_k, new_v = floating(k, "k"), floating(v, "v")
        self._check(new_k, new_v)
        stop = self._length + new_k.shape[-2]
        all_k, all_v = self._room(self._k, new_k, stop), self._room(self._v, new_v, stop)
        all_k[..., self._length : stop, :] = new_k
        all_v[..., self._length : stop, :] = new_v
        self._k, self._v, self._length = all_k, all_v, stop
        return _first(all_k, stop, library(k)), _first(all_v, stop, library(v))

    @contextmanager
    def appending(self, k: Any, v: Any) -> Iterator[tuple[Any, Any]]:
        """`append` that is taken back if the body of the `with` raises, so that a step can be tried again."""
        before = self._k, self._v, self._length
        try:
            yield self.append(k, v)
        except BaseException:
            self._k, self._v, self._length = before
            raise

    def preview(self, k: Any) -> Any:
        """The keys that appending k would give, as a copy: the cache stays as it is."""
        new = floating(k, "k")
        if self._k is not None:
            _compare("k", new, self._k, self._length)
            new = np.concatenate([self._k[..., : self._length, :], new], axis=-2)
        return restore(new, library(k))

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        if self._k is None or self._v is None:
            return "KVCache(empty)"
        k, v = (kept[..., : self._length, :].shape for kept in (self._k, self._v))
        return f"KVCache({self._length} keys, k {k}, v {v}, {self._k.dtype})"

    def _check(self, k: Array, v: Array) -> None:
        if k.ndim < 2 or k.shape[:-1] != v.shape[:-1]:
            raise ShapeError(
                f"k and v must be (…, n_kv_heads, n, width) and differ in nothing but the width, got "
                f"k.shape = {k.shape} and v.shape = {v.shape}; append keys and values of the same positions"
            )
        if k.dtype != v.dtype:
            raise DTypeError(f"k and v need one dtype, got k {k.dtype} and v {v.dtype}; cast one of them")
        if self._k is not None and self._v is not None:
            _compare("k", k, self._k, self._length)
            _compare("v", v, self._v, self._length)

    def _room(self, buffer: Array | None, new: Array, stop: int) -> Array:
        """A buffer for at least stop positions that begins with what is kept so far."""
        if buffer is not None and stop <= buffer.shape[-2]:
            return buffer
        capacity = stop if buffer is None else max(stop, 2 * buffer.shape[-2])
        larger = np.empty((*new.shape[:-2], capacity, new.shape[-1]), new.dtype)
        if buffer is not None:
            larger[..., : self._length, :] = buffer[..., : self._length, :]
        return larger


def _first(buffer: Array, stop: int, home: Library) -> Any:
    """The first stop positions; NumPy's own view is read-only, for what is kept here must not change."""
    if home != NUMPY:
        return restore(buffer[..., :stop, :].copy(), home)
    view = buffer[..., :stop, :]
    view.flags.writeable = False
    return view


def _compare(name: str, new: Array, kept: Array, length: int) -> None:
    """Refuse rows that differ from those kept in anything but their number."""
    if new.dtype != kept.dtype:
        raise DTypeError(f"{name} is {new.dtype} but the cache holds {kept.dtype}. {_WAY_OUT}")
    if new.ndim != kept.ndim:
        differs = [f"{new.ndim} axes, not {kept.ndim}"]
    else:
        axes = {"batch axes": slice(0, -3), "heads": slice(-3, -2), "width": slice(-1, None)}
        pairs = [(what, new.shape[cut], kept.shape[cut]) for what, cut in axes.items()]
        differs = [f"{what} {_plain(got)}, not {_plain(held)}" for what, got, held in pairs if got != held]
    if differs:
        held = kept[..., :length, :].shape
        raise ShapeError(
            f"{name} does not continue the cache: {'; '.join(differs)} ({name}.shape = {new.shape}, "
            f"the cache holds {held}). {_WAY_OUT}"
        )


def _plain(sizes: tuple[int, ...]) -> object:
    return sizes[0] if len(sizes) == 1 else sizes
