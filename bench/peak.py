"""The loops of peak.cpp as sides of a benchmark: multiply-adds in float32 and bfloat16, and reading."""

import ctypes
import os
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path

import numpy as np
from turns import Missing, Side

STEPS = 2_000_000  # some 10 ms
FLOAT = 4  # bytes of what the reading loops count in
PAIR, OTHER = 0x3E9A3F13, 0xBF123E55 - (1 << 32)  # two bfloat16 each: 0.57 and 0.30, 0.21 and −0.57


@cache
def library() -> ctypes.CDLL:
    """peak.cpp compiled for this processor."""
    source = Path(__file__).with_name("peak.cpp")
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "peak.so"
        flags = ["-std=gnu++17", "-O3", "-march=native", "-shared", "-fPIC", str(source), "-o", str(made)]
        for compiler in (os.environ.get("CXX", "c++"), "g++", "clang++"):
            try:
                subprocess.run([compiler, *flags], check=True, capture_output=True)  # noqa: S603 (a file of ours)
            except (OSError, subprocess.CalledProcessError):
                continue
            return ctypes.CDLL(str(made))  # loaded, it outlives its folder
    raise Missing("no C++ compiler here for bench/peak.cpp")


def flops(dtype: str) -> float:
    """The floating-point operations of one call of `multiply_adds`."""
    steps = library().flops_per_dot_step() if dtype == "bfloat16" else library().flops_per_step()
    return float(steps * STEPS)


def multiply_adds(dtype: str) -> Side:
    """Multiply-adds on this thread, in its own processor time: as often as there are threads, the peak."""
    if not flops(dtype):
        raise Missing("the peak is that of vdpbf16ps, which this CPU or its compiler does not have")
    if dtype == "bfloat16":
        loop, kind, given = library().dot_bfloat16, ctypes.c_int, (PAIR, OTHER)
    else:
        loop, kind, given = library().multiply_add, ctypes.c_float, (0.5, 1.0)
    loop.argtypes, loop.restype = [ctypes.c_int64, kind, kind], ctypes.c_float
    return Side(partial(loop, STEPS, *given), time.thread_time)


def reading(arrays: tuple[np.ndarray, ...], threads: int, loop: str = "read_in_order") -> Side:
    """These arrays read from end to end, each thread a part of each."""
    read = getattr(library(), loop)
    read.argtypes, read.restype = [ctypes.c_void_p, ctypes.c_int64], ctypes.c_int
    # of each array as many parts as there are threads, the first parts before the second
    sizes = [each.nbytes // threads for each in arrays]
    starts = [
        each.ctypes.data + part * size for part in range(threads) for each, size in zip(arrays, sizes, strict=True)
    ]
    counts = [size // FLOAT for size in sizes] * threads
    pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def call(_kept: tuple[np.ndarray, ...] = arrays) -> list[int]:
        return list(map(read, starts, counts) if pool is None else pool.map(read, starts, counts))

    return Side(call)
