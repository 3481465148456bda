"""A @ v in each compiled kernel: beside torch's SDPA and NumPy, on one thread and on two, as a share of the peak.

    python bench/forward.py [--kernels v4 v3 baseline walk] [--threads 1 2] [--dtypes float32 bfloat16 float16]
                            [--seconds 2] [--busy]

Each kernel and number of threads has a process of its own; in it qkv, SDPA, NumPy (float32) and a loop of
multiply-adds take turns, for some seconds a shape. On one thread the clock is the processor time of the process, which
other work on the machine hardly moves; on more it is the wall, and that table is left out while others keep more than a
fifth of a core busy, unless --busy. Printed are medians, the spread of qkv and SDPA (quartiles apart, over the median),
and the median of the ratios of a turn. GF/s counts 4 · d for each pair that may be seen; the peak is float32's, that of
bench/peak.cpp on one thread, as often as there are threads. One query is a matter of memory: there stands GB/s, of keys
and values read. Nothing is written.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time

import machine
import peak
import peers
import problems
from problems import Shape
from turns import Missing, Side, Turns, spread, take

import qkv

WIDEST = 1 << 29  # bytes of scores that NumPy is asked for
OTHERS = {"SDPA": peers.sdpa, "NumPy": peers.numpy_eager}
SHAPES = [
    Shape(8, 2048, 2048, 64),
    Shape(8, 2048, 2048, 64, causal=True),
    Shape(8, 2048, 2048, 128),
    Shape(12, 196, 196, 64),
    Shape(8, 512, 512, 64, causal=True),
    Shape(4, 8192, 8192, 64),
    Shape(32, 1, 8192, 128),
]


def sides(shape: Shape, dtype: str, threads: int) -> dict[str, Side]:
    """The same attention by each side, held to the formula, and the loop of multiply-adds where it compiles."""
    given, found = problems.arrays(shape, dtype), {}
    for name, maker in {"qkv": peers.own, **OTHERS}.items():
        if name == "NumPy" and 4 * shape.heads * shape.n_q * shape.n_k > WIDEST:
            continue
        try:
            made = maker(shape, given, threads)
        except Missing:
            continue
        problems.check(shape, dtype, given, made.answer(made.call()))
        found[name] = Side(made.call)
    try:
        found["peak"] = peak.multiply_adds("float32")
    except Missing:
        return found
    return found


def row(shape: Shape, dtype: str, turns: Turns, threads: int) -> str:
    """One line of the table."""
    middle = {name: statistics.median(values) for name, values in turns.items()}
    ratio = {
        name: statistics.median(a / b for a, b in zip(values, turns["qkv"], strict=True))
        for name, values in turns.items()
    }
    # one query: what it costs is reading the keys and values
    read = shape.numbers_of_keys * problems.numpy_dtype(dtype).itemsize
    share = f"{read / middle['qkv'] / 1e9:.1f} GB/s" if shape.n_q == 1 else "–"
    if shape.n_q > 1 and "peak" in turns:
        share = f"{shape.flops * ratio['peak'] / (threads * peak.flops('float32')):.0%}"
    numpy = f"{middle['NumPy'] * 1e3:9.2f} {ratio['NumPy']:6.1f}" if "NumPy" in turns else f"{'–':>9} {'–':>6}"
    return (
        f"{shape!s:<26} {dtype:<8} {middle['qkv'] * 1e3:9.2f} ± {spread(turns['qkv']):3.0%} "
        f"{middle['SDPA'] * 1e3:9.2f} ± {spread(turns['SDPA']):3.0%} {ratio['SDPA']:6.2f} {numpy} "
        f"{shape.flops / middle['qkv'] / 1e9:7.1f} {share:>9}"
    )


def table(threads: int, dtypes: list[str], limit: float) -> None:
    chosen = next(kernel for kernel in qkv.kernels() if kernel.chosen)
    clock, of = (time.process_time, "processor") if threads == 1 else (time.perf_counter, "wall")
    print(f"\n{chosen.name}, {threads} thread{'s' * (threads > 1)}, {of} time, load {os.getloadavg()[0]:.1f}")
    print(f"{'':<36}{'qkv ms':>9}{'SDPA ms':>16}{'/ qkv':>13}{'NumPy ms':>10}{'/ qkv':>7}{'GF/s':>8}{'of peak':>10}")
    peaks: list[float] = []
    for dtype in dtypes:
        for shape in SHAPES:
            problems.forget()
            turns = take(sides(shape, dtype, threads), clock, limit)
            peaks += turns.get("peak", [])
            print(row(shape, dtype, turns, threads), flush=True)
    if peaks:
        rate = peak.flops("float32") / statistics.median(peaks) / 1e9
        print(f"peak: {rate:.0f} GF/s a thread, float32 ± {spread(peaks):.0%}")
    else:
        print("peak: not measured, no C++ compiler here")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", nargs="+", default=[""], help="names as qkv.kernels() gives them")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16", "float16"])
    parser.add_argument("--seconds", type=float, default=2, help="that a shape takes turns for, about")
    parser.add_argument("--busy", action="store_true", help="more threads than one, however busy the machine is")
    parser.add_argument("--table", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.table:
        table(asked.threads[0], asked.dtypes, asked.seconds)
        return
    print(machine.described(), flush=True)
    for threads in asked.threads:
        for kernel in asked.kernels:
            if threads > 1 and not asked.busy and (busy := machine.busy_cores()) > machine.IDLE:
                print(f"\n{threads} threads: left out, others keep {busy:.1f} cores busy; --busy measures all the same")
                continue
            limit = dict.fromkeys(machine.POOLS, str(threads))
            given = ["--threads", str(threads), "--seconds", str(asked.seconds), "--dtypes", *asked.dtypes]
            command = [sys.executable, __file__, "--table", *given]
            env = {**os.environ, **limit, **({"QKV_KERNEL": kernel} if kernel else {})}
            subprocess.run(command, check=True, env=env)  # noqa: S603 (this file)


if __name__ == "__main__":
    main()
