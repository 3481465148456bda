"""What the compiled kernels read of the caller's memory: any strides and addresses, not one byte beside the numbers."""

import ctypes
import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import qkv
import running
from cases.definition import DTYPES, assert_same, bits, normal, qkv_arrays

pytestmark = running.needs_kernel
PAGE = mmap.PAGESIZE


def _shifted(x: np.ndarray) -> np.ndarray:
    """The same numbers one byte behind an aligned address."""
    raw = np.empty(x.nbytes + 1, np.uint8)
    raw[1:] = np.frombuffer(x.tobytes(), np.uint8)
    return raw[1:].view(x.dtype).reshape(x.shape)


def _in_records(x: np.ndarray) -> np.ndarray:
    """The rows of each head in a packed record with one byte more: every second head starts at an odd address."""
    records = np.zeros(x.shape[:2], [("rows", x.dtype, x.shape[2:]), ("more", "u1")])
    records["rows"] = x
    return records["rows"]


def _packed(x: np.ndarray) -> np.ndarray:
    """Heads beside each other in rows of (batch, n, 3, heads, d), as a fused projection leaves them."""
    fused = np.full((x.shape[0], x.shape[2], 3, x.shape[1], x.shape[3]), np.nan, x.dtype)
    fused[:, :, 1] = x.swapaxes(1, 2)
    return fused[:, :, 1].swapaxes(1, 2)


VIEWS: dict[str, Any] = {
    "every second channel": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "every second row": lambda x: np.repeat(x, 2, axis=-2)[..., ::2, :],
    "backwards": lambda x: np.ascontiguousarray(x[:, ::-1, ::-1, ::-1])[:, ::-1, ::-1, ::-1],
    "a fused projection": _packed,
    "channels first": lambda x: np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2),
    "Fortran": np.asfortranarray,
    "an odd address": _shifted,
    "a packed record": _in_records,
    "the other byte order": lambda x: x if x.dtype.kind == "V" else x.astype(x.dtype.newbyteorder(">")),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("view", VIEWS)
def test_how_the_numbers_lie_changes_not_one_bit(view, dtype, compiled):
    q, k, v = qkv_arrays(1, 50, 70, batch=2, heads=4, kv_heads=2, d_k=16, d_v=16, dtype=dtype)
    how: dict[str, Any] = {"causal": True, "mask": np.arange(70) % 11 != 3}
    wanted = bits(qkv.attention(q, k, v, **how))
    seen = [VIEWS[view](x) for x in (q, k, v)]
    for x in seen:
        x.flags.writeable = False
    for mixed in _mixed((q, k, v), seen):
        assert bits(qkv.attention(*mixed, **how)) == wanted


def _mixed(plain: Any, seen: Any) -> Iterator[list[Any]]:
    """All three seen so, and each alone."""
    yield seen
    for turned in range(3):
        yield [seen[at] if at == turned else plain[at] for at in range(3)]


@pytest.mark.parametrize(
    "turn", ["rows backwards", "keys backwards", "transposed", "one row for all", "one key for all"]
)
def test_masks_and_biases_of_any_strides_are_read_in_place(turn, compiled):
    q, k, v = qkv_arrays(2, 50, 70, batch=2, heads=4)
    change = {
        "rows backwards": lambda x: x[..., ::-1, :],
        "keys backwards": lambda x: x[..., ::-1],
        "transposed": lambda x: np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2),
        "one row for all": lambda x: np.broadcast_to(x[..., :1, :], x.shape),
        "one key for all": lambda x: np.broadcast_to(x[..., :1], x.shape),
    }[turn]
    mask = change(np.random.default_rng(0).random((2, 4, 50, 70)) < 0.6)
    bias = change(normal(3, (4, 50, 70))[0])
    wanted = bits(qkv.attention(q, k, v, mask=mask.copy(), bias=bias.copy()))
    assert bits(qkv.attention(q, k, v, mask=mask, bias=bias)) == wanted


# A page that nobody may touch behind, or in front of, every array: reading one byte too many ends the process.


class Guarded:
    """Arrays whose last byte is the last one before a page without access, or whose first is the first behind one."""

    def __init__(self) -> None:
        self._maps: list[mmap.mmap] = []
        self._protect = ctypes.CDLL(None, use_errno=True).mprotect

    def copy(self, x: np.ndarray, at_end: bool = True) -> np.ndarray:
        """x in memory of its own between two pages without access."""
        pages = -(-max(1, x.nbytes) // PAGE)
        memory = mmap.mmap(-1, (pages + 2) * PAGE)
        self._maps.append(memory)
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        begin = PAGE + (pages * PAGE - x.nbytes if at_end else 0)
        raw = np.frombuffer(memory, np.uint8, x.nbytes, begin)
        raw[:] = np.frombuffer(np.ascontiguousarray(x).tobytes(), np.uint8)
        for page in (0, pages + 1):
            if self._protect(ctypes.c_void_p(start + page * PAGE), ctypes.c_size_t(PAGE), 0):
                raise OSError(ctypes.get_errno(), "mprotect")
        return raw.view(x.dtype).reshape(x.shape)


@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("n_q", "n_k"), [(1, 1), (3, 5), (17, 63), (50, 65), (13, 130)])
def test_not_one_byte_beside_the_arrays_is_read(n_q, n_k, dtype, at_end, compiled):
    guarded = Guarded()
    for d_k, d_v in [(1, 1), (3, 5), (8, 8), (9, 7), (16, 33), (64, 64)]:
        arrays = qkv_arrays(4, n_q, n_k, heads=2, d_k=d_k, d_v=d_v, dtype=dtype)
        q, k, v = (guarded.copy(x, at_end) for x in arrays)
        mask = np.random.default_rng(0).random((n_q, n_k)) < 0.8
        bias = normal(5, (2, n_q, n_k), dtype=dtype)[0]
        assert bits(qkv.attention(q, k, v)) == bits(qkv.attention(*arrays))
        seen = qkv.attention(q, k, v, causal=True, mask=guarded.copy(mask, at_end), bias=guarded.copy(bias, at_end))
        assert bits(seen) == bits(qkv.attention(*arrays, causal=True, mask=mask, bias=bias))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_not_one_byte_is_read_of_columns_and_rows_that_are_left_out(dtype, compiled):
    guarded = Guarded()
    q, k, v = (np.ascontiguousarray(x[0, 0]) for x in qkv_arrays(6, 21, 67, heads=1, d_k=9, d_v=5, dtype=dtype))
    wide = [guarded.copy(np.concatenate([x, x], axis=-1)) for x in (q, k, v)]
    cut = [x[:, x.shape[1] // 2 :] for x in wide]  # the last row ends at the page, each row goes on from the one before
    assert bits(qkv.attention(*cut)) == bits(qkv.attention(q, k, v))
    turned = [guarded.copy(x[::-1, ::-1])[::-1, ::-1] for x in (q, k, v)]
    assert bits(qkv.attention(*turned)) == bits(qkv.attention(q, k, v))


# Offsets that 32 bits do not hold.


def _far(x: np.ndarray, apart: int) -> np.ndarray:
    """x with its rows so many bytes apart, in memory that is only there where it is written to."""
    no_reserve = getattr(mmap, "MAP_NORESERVE", 0x4000)
    try:
        memory = mmap.mmap(-1, apart * len(x), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | no_reserve)
    except (OSError, ValueError):
        pytest.skip(f"{apart * len(x) >> 30} GiB of address space are not to be had here")
    far = as_strided(np.frombuffer(memory, x.dtype), x.shape, (apart, x.itemsize))
    far[...] = x
    return far


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_strides_beyond_32_bits_are_right(dtype, compiled):
    q, k, v = (x[0, 0] for x in qkv_arrays(7, 5, 9, heads=1, dtype=dtype))
    far_k, far_v = (_far(x, (1 << 30) + 4096) for x in (k, v))
    assert bits(qkv.attention(q, far_k, far_v, causal=True)) == bits(qkv.attention(q, k, v, causal=True))
    assert bits(qkv.attention(q, far_k[::-1], far_v[::-1])) == bits(qkv.attention(q, k[::-1], v[::-1]))
    assert bits(qkv.attention(_far(q, (1 << 31) + 4096), k, v)) == bits(qkv.attention(q, k, v))


def test_more_cells_than_32_bits_count_are_right(compiled):
    """4096 heads of 1024 × 1024 are 2³² cells; the spans leave few of them, and one row of keys stands for all."""
    q, k, v = normal(8, (1, 1, 2), (1, 1, 2), (1, 1, 2))
    q, k, v = (np.broadcast_to(x, (4096, 1024, 2)) for x in (q, k, v))
    A = qkv.attend(q, k, window=(1, 0))
    assert A.size == 1 << 32
    out = A @ v
    assert out.shape == (4096, 1024, 2)
    np.testing.assert_allclose(out, v, rtol=1e-6)


def test_more_keys_than_32_bits_count_are_right(compiled):
    n_k = (1 << 31) + 5
    k = as_strided(normal(9, (1, 2))[0], (n_k, 2), (0, 8))
    v = as_strided(np.array([[1.5, -2.0]], np.float32), (n_k, 2), (0, 8))
    A = qkv.attend(np.ones((3, 2), np.float32), k, window=(3, 0))
    np.testing.assert_allclose(A @ v, np.repeat(v[:1], 3, 0), rtol=1e-6)
    bias = as_strided(np.zeros(1, np.float32), (3, n_k), (0, 0))
    mask = as_strided(np.ones(1, bool), (3, n_k), (0, 0))
    assert_same(qkv.attention(np.ones((3, 2), np.float32), k, v, window=(3, 0), bias=bias, mask=mask), A @ v)
