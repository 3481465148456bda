"""A @ v: the kernel beside torch's SDPA and NumPy by the formula, on one thread and on two, a share of the peak.

    python bench/forward.py [--kernels v4 v3 baseline walk] [--threads 1 2] [--dtypes float32 bfloat16 float16]
                            [--repeats 7] [--busy]

Each kernel and number of threads has a process of its own; in it qkv, SDPA, NumPy (float32) and a loop of
multiply-adds take turns. On one thread the clock is the processor time of the process, which other work on the machine
hardly moves; on more it is the wall, and that table is left out while others keep more than a fifth of a core busy,
unless --busy. Printed are medians, the spread of qkv and SDPA (quartiles apart, over the median), and the median
of the ratios of a turn. GF/s counts 4 · d for each pair that may be seen; the peak is that of bench/peak.cpp, compiled
here, on one thread in processor time, as often as there are threads. One query is a matter of memory: there stands
GB/s, of keys and values read. Nothing is written.
"""

import argparse
import ctypes
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import machine
import numpy as np
import torch

import qkv
from qkv import formula

LEAST = 0.01  # seconds that a turn repeats a call for
LONG = 0.1  # seconds of a call beside which those after a change of sides do not count
IDLE = 0.2  # cores that others may keep busy
PEAK_STEPS = 2_000_000  # some 10 ms
WIDEST = 1 << 29  # bytes of scores that NumPy is asked for
LIMITS = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 3e-3}


class Shape(NamedTuple):
    """One attention: (1, heads, n, d), causal or full."""

    heads: int
    n_q: int
    n_k: int
    d: int
    causal: bool

    def __str__(self) -> str:
        n = f"{self.n_q}" if self.n_q == self.n_k else f"{self.n_q}×{self.n_k}"
        return f"(1, {self.heads}, {n}, {self.d}) {'causal' if self.causal else 'full'}"

    @property
    def flops(self) -> int:
        pairs = self.n_q * (self.n_q + 1) // 2 if self.causal else self.n_q * self.n_k
        return 4 * self.heads * self.d * pairs

    @property
    def numbers_of_keys(self) -> int:
        return 2 * self.heads * self.n_k * self.d


SHAPES = [
    Shape(8, 2048, 2048, 64, causal=False),
    Shape(8, 2048, 2048, 64, causal=True),
    Shape(8, 2048, 2048, 128, causal=False),
    Shape(12, 196, 196, 64, causal=False),
    Shape(8, 512, 512, 64, causal=True),
    Shape(4, 8192, 8192, 64, causal=False),
    Shape(32, 1, 8192, 128, causal=False),
]


def tensors(shape: Shape, dtype: torch.dtype) -> list[torch.Tensor]:
    made = torch.Generator().manual_seed(0)
    rows = (shape.n_q, shape.n_k, shape.n_k)
    return [torch.randn(1, shape.heads, n, shape.d, generator=made).to(dtype) for n in rows]


def candidates(shape: Shape, dtype: torch.dtype) -> dict[str, Callable[[], object]]:
    """The same attention by each side: qkv and SDPA on the same tensors, NumPy on the same memory."""
    q, k, v = tensors(shape, dtype)
    sdpa = partial(torch.nn.functional.scaled_dot_product_attention, is_causal=shape.causal)
    sides: dict[str, Callable[[], object]] = {
        "qkv": lambda: qkv.attention(q, k, v, causal=shape.causal),
        "SDPA": lambda: sdpa(q, k, v),
    }
    if dtype == torch.float32 and 4 * shape.heads * shape.n_q * shape.n_k <= WIDEST:
        arrays = [each.numpy() for each in (q, k, v)]
        visible = np.tri(shape.n_q, dtype=bool) if shape.causal else None
        sides["NumPy"] = lambda: formula.attention(*arrays, visible=visible)
    return sides


def check(sides: dict[str, Callable[[], object]], dtype: torch.dtype) -> None:
    """Hold all sides to each other."""
    found = {name: torch.as_tensor(call()).double() for name, call in sides.items()}
    for name, out in found.items():
        apart = float((out - found["SDPA"]).abs().max() / found["SDPA"].abs().max())
        if apart > LIMITS[dtype]:
            raise SystemExit(f"{name} and SDPA are {apart:.1e} apart in {dtype}")


def compiled(folder: str) -> ctypes.CDLL | None:
    """peak.cpp as a library for this processor; None where nothing compiles it."""
    library, source = Path(folder) / "peak.so", Path(__file__).with_name("peak.cpp")
    flags = ["-std=gnu++17", "-O3", "-march=native", "-shared", "-fPIC", str(source), "-o", str(library)]
    for compiler in (os.environ.get("CXX", "c++"), "g++", "clang++"):
        try:
            subprocess.run([compiler, *flags], check=True, capture_output=True)  # noqa: S603 (a file of ours)
        except (OSError, subprocess.CalledProcessError):
            continue
        return ctypes.CDLL(str(library))
    return None


def peak_loop(folder: str) -> tuple[Callable[[], object], float] | None:
    """The loop of peak.cpp on this thread, and its floating-point operations."""
    if (library := compiled(folder)) is None:
        return None
    loop = library.multiply_add
    loop.argtypes, loop.restype = [ctypes.c_int64, ctypes.c_float, ctypes.c_float], ctypes.c_float
    return partial(loop, PEAK_STEPS, 0.5, 1.0), float(library.flops_per_step() * PEAK_STEPS)


def seconds(call: Callable[[], object], clock: Callable[[], float], before: list[float]) -> float:
    """Seconds of one call: the mean over a turn of at least LEAST seconds, behind a call that does not count.

    That call meets the caches, and threads that still spin, as the side before left them. A long one bears it.
    """
    if not before or before[-1] < LONG:
        call()
    count, start = 0, clock()
    while (passed := clock() - start) < LEAST:
        call()
        count += 1
    return passed / count


def spread(values: list[float]) -> float:
    low, middle, high = statistics.quantiles(values, n=4)
    return (high - low) / middle


def row(shape: Shape, dtype: torch.dtype, turns: dict[str, list[float]], peak_flops: float) -> str:
    """One line of the table."""
    middle = {name: statistics.median(values) for name, values in turns.items()}
    ratio = {
        name: statistics.median(a / b for a, b in zip(values, turns["qkv"], strict=True))
        for name, values in turns.items()
    }
    # one query: what it costs is reading the keys and values
    share = f"{shape.numbers_of_keys * dtype.itemsize / middle['qkv'] / 1e9:.1f} GB/s" if shape.n_q == 1 else "–"
    if shape.n_q > 1 and "peak" in turns:
        share = f"{shape.flops * ratio['peak'] / peak_flops:.0%}"
    numpy = f"{middle['NumPy'] * 1e3:9.2f} {ratio['NumPy']:6.1f}" if "NumPy" in turns else f"{'–':>9} {'–':>6}"
    name = str(dtype).removeprefix("torch.")
    return (
        f"{shape!s:<26} {name:<8} {middle['qkv'] * 1e3:9.2f} ± {spread(turns['qkv']):3.0%} "
        f"{middle['SDPA'] * 1e3:9.2f} ± {spread(turns['SDPA']):3.0%} {ratio['SDPA']:6.2f} {numpy} "
        f"{shape.flops / middle['qkv'] / 1e9:7.1f} {share:>9}"
    )


def table(threads: int, dtypes: list[str], repeats: int, folder: str) -> None:
    torch.set_num_threads(threads)
    chosen = next(kernel for kernel in qkv.kernels() if kernel.chosen)
    clock, of = (time.process_time, "processor") if threads == 1 else (time.perf_counter, "wall")
    print(f"\n{chosen.name}, {threads} thread{'s' * (threads > 1)}, {of} time, load {os.getloadavg()[0]:.1f}")
    print(f"{'':<36}{'qkv ms':>9}{'SDPA ms':>16}{'/ qkv':>13}{'NumPy ms':>10}{'/ qkv':>7}{'GF/s':>8}{'of peak':>10}")
    peak = peak_loop(folder)
    peaks: list[float] = []
    for dtype in (getattr(torch, name) for name in dtypes):
        for shape in SHAPES:
            sides = candidates(shape, dtype)
            check(sides, dtype)
            if peak:
                sides["peak"] = peak[0]
            turns: dict[str, list[float]] = {name: [] for name in sides}
            for _ in range(repeats):
                for name, call in sides.items():
                    turns[name].append(seconds(call, time.thread_time if name == "peak" else clock, turns[name]))
            peaks += turns.get("peak", [])
            print(row(shape, dtype, turns, threads * peak[1] if peak else 0), flush=True)
    if peak:
        print(f"peak: {peak[1] / statistics.median(peaks) / 1e9:.0f} GF/s a thread, float32 ± {spread(peaks):.0%}")
    else:
        print("peak: not measured, no C++ compiler here")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", nargs="+", default=[""], help="names as qkv.kernels() gives them")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16", "float16"])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--busy", action="store_true", help="more threads than one, however busy the machine is")
    parser.add_argument("--table", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.table:
        with tempfile.TemporaryDirectory() as folder:
            table(asked.threads[0], asked.dtypes, asked.repeats, folder)
        return
    print(f"{machine.described()}, torch {torch.__version__}", flush=True)
    for threads in asked.threads:
        for kernel in asked.kernels:
            if threads > 1 and not asked.busy and (busy := machine.busy_cores()) > IDLE:
                print(f"\n{threads} threads: left out, others keep {busy:.1f} cores busy; --busy measures all the same")
                continue
            limit = {name: str(threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
            given = ["--threads", str(threads), "--repeats", str(asked.repeats), "--dtypes", *asked.dtypes]
            command = [sys.executable, __file__, "--table", *given]
            env = {**os.environ, **limit, **({"QKV_KERNEL": kernel} if kernel else {})}
            subprocess.run(command, check=True, env=env)  # noqa: S603 (this file)


if __name__ == "__main__":
    main()
