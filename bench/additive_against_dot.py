"""The additive score beside the dot product: seconds and memory, dense and tile by tile, at the same n and width.

    python bench/additive_against_dot.py [--n 1024] [--d 64] [--repeats 5] [--dense-n N]

Each job runs in a process of its own, all of them in turn, so that its peak memory is its own and what else the machine
does meets all alike. A ratio is taken within a turn; printed are the median of the ratios and their least and largest.
Beside it stands what `qkv.cost` counts: products of matrices alone would make the two alike.
"""

import argparse
import json
import statistics
import time

import machine
import numpy as np

import qkv
from qkv import cost, formula, scores

LEAST = 0.3  # seconds that a job is repeated for
CHECKED_N = 300
BYTES = 8  # of each channel of each pair at the widest step of the dense additive score: the layer, and its tanh


def arrays(n: int, d: int) -> tuple[np.ndarray, ...]:
    """The queries and keys, and the matrices and vector of an additive score as wide as they are."""
    rng = np.random.default_rng(0)
    return tuple(rng.standard_normal(shape, dtype=np.float32) for shape in [(n, d), (n, d), (d, d), (d, d), (d,)])


def dense_dot(n: int, d: int):
    q, k, *_ = arrays(n, d)
    return lambda: formula.score(q, k)


def dense_additive(n: int, d: int):
    q, k, w_q, w_k, v = arrays(n, d)
    return lambda: formula.additive_score(q, k, w_q, w_k, v)


def tiled_dot(n: int, d: int):
    q, k, *_ = arrays(n, d)
    return lambda: qkv.attend(q, k).lse()


def tiled_additive(n: int, d: int):
    q, k, w_q, w_k, v = arrays(n, d)
    return lambda: qkv.attend(q, k, score=scores.Additive(w_q, w_k, v)).lse()


JOBS = {job.__name__: job for job in (dense_dot, dense_additive, tiled_dot, tiled_additive)}


def measure(job: str, n: int, d: int) -> dict[str, float]:
    """Seconds of one run, the mean over LEAST seconds after a first that does not count, and peak memory in MB."""
    run = JOBS[job](n, d)
    run()
    count, start = 0, time.perf_counter()
    while (passed := time.perf_counter() - start) < LEAST:
        run()
        count += 1
    return {"seconds": passed / count, "mb": machine.peak_mb()}


def check(d: int) -> None:
    """Hold the dense side and the tiles to each other, at a small n."""
    for kind in ("dot", "additive"):
        score, lse = (JOBS[f"{how}_{kind}"](CHECKED_N, d)() for how in ("dense", "tiled"))
        np.testing.assert_allclose(lse, formula.lse(score), rtol=1e-5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=1024)
    parser.add_argument("--d", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--dense-n", type=int)
    parser.add_argument("--job", choices=JOBS, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.job:
        print(json.dumps(measure(asked.job, asked.n, asked.d)))
        return
    print(machine.described())
    check(asked.d)
    sizes = {"dense": asked.dense_n or machine.dense_n(asked.n, BYTES * asked.d), "tiled": asked.n}
    found: dict[str, list[dict[str, float]]] = {job: [] for job in JOBS}
    for _ in range(asked.repeats):
        for job in JOBS:
            found[job].append(machine.in_process(__file__, job, sizes[job.split("_")[0]], asked.d))
    for kind, what in (("dense", "scores, formula.py"), ("tiled", "scores and lse, qkv.attend")):
        print(f"{what}, n = {sizes[kind]:,}, d = {asked.d}, float32")
        report(found[f"{kind}_dot"], found[f"{kind}_additive"])
    dot, additive = cost.dot(asked.n, asked.n, asked.d), cost.additive(asked.n, asked.n, asked.d)
    products, numbers = additive.multiply_adds / dot.multiply_adds, additive.numbers / dot.numbers
    print(f"counted: {products:.2f} times the multiply-adds, {additive.tanhs:,} tanhs, {numbers:.0f} times the numbers")


def report(dot: list[dict[str, float]], additive: list[dict[str, float]]) -> None:
    ratios = [slow["seconds"] / fast["seconds"] for slow, fast in zip(additive, dot, strict=True)]
    for name, each in (("dot", dot), ("additive", additive)):
        middle = statistics.median(one["seconds"] for one in each)
        print(f"  {name:<14} {middle * 1000:>9.2f} ms   {max(one['mb'] for one in each):>7,.0f} MB")
    print(f"  additive / dot {statistics.median(ratios):>9.0f} times ({min(ratios):.0f} to {max(ratios):.0f})")


if __name__ == "__main__":
    main()
