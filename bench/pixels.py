"""The pixel case: one causal head over 224 × 224 = 50,176 pixels, beside dense NumPy at a size that fits.

    python bench/pixels.py [--n 50176] [--d 64] [--repeats 3] [--dense-n N]

First both sides are held to each other at a small n. Then each job runs in a process of its own, the kinds in turn, so
that its peak memory is its own. Printed are the median and the spread (slowest less fastest over the median) of the
seconds, and the peak of the process's memory. Without --dense-n the dense side takes half of the memory available, and
n = 8192 where the machine does not say how much that is.
"""

import argparse
import json
import statistics
import time
from itertools import pairwise

import machine
import numpy as np

import qkv
from qkv import measures

LIMIT_MB = 1500
PIXELS = 512
CHECKED_N = 1300  # no multiple of the pixels: some are 2 cells high, some 3
BYTES = 8  # of each cell on the dense side: its score and its weight, both float32

Answer = tuple[np.ndarray, np.ndarray, np.ndarray]  # entropy (n,), received (n,), image (pixels, pixels)


def arrays(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, d), dtype=np.float32), rng.standard_normal((n, d), dtype=np.float32)


def walk(n: int, d: int) -> Answer:
    """Entropy, received and a picture from one walk."""
    q, k = arrays(n, d)
    A = qkv.attend(q, k, causal=True)
    return A.measure(measures.entropy(), measures.received(), measures.image(PIXELS))


def forward(n: int, d: int) -> None:
    q, k = arrays(n, d)
    qkv.attend(q, k, causal=True) @ k


def dense(n: int, d: int) -> Answer:
    """The same three from whole matrices: the scores and the weights, each step written in place."""
    q, k = arrays(n, d)
    q /= np.float32(d**0.5)
    score = q @ k.T
    _fill_above_diagonal(score, -np.inf)
    score -= score.max(axis=-1, keepdims=True)
    weight = np.exp(score)
    total = weight.sum(axis=-1, keepdims=True)
    weight /= total
    _fill_above_diagonal(score, 0)  # a weight of 0 times a score of −inf would be NaN
    entropy = np.log(total[:, 0]) - np.vecdot(weight, score)
    return entropy, weight.sum(axis=0), _picture(weight)


def _fill_above_diagonal(array: np.ndarray, value: float) -> None:
    for i, row in enumerate(array):
        row[i + 1 :] = value


def _picture(weight: np.ndarray) -> np.ndarray:
    """The mean of each pixel's visible cells, NaN where there are none; pixel p holds the i with ⌊i·pixels/n⌋ = p."""
    n, pixels = len(weight), min(PIXELS, len(weight))
    edges = -(-np.arange(pixels + 1) * n // pixels)
    rows = np.stack([weight[a:b].sum(axis=0) for a, b in pairwise(edges)])  # ten times as fast as reduceat
    row, key = edges[:, None], np.minimum(edges[:, None], edges)
    visible = key * (key + 1) // 2 + (row - key) * edges  # cells above and left of each corner
    with np.errstate(invalid="ignore"):
        return np.add.reduceat(rows, edges[:-1], axis=1) / np.diff(np.diff(visible, axis=0), axis=1)


JOBS = {"walk": walk, "forward": forward, "dense": dense}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=50_176)
    parser.add_argument("--d", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--dense-n", type=int)
    parser.add_argument("--job", choices=JOBS, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.job:
        start = time.perf_counter()
        JOBS[asked.job](asked.n, asked.d)
        print(json.dumps({"seconds": time.perf_counter() - start, "mb": machine.peak_mb()}))
        return
    print(machine.described())
    for one, other in zip(walk(CHECKED_N, asked.d), dense(CHECKED_N, asked.d), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    fits = asked.dense_n or machine.dense_n(asked.n, BYTES)
    work = {"walk": asked.n, "walk, small": fits, "dense": fits, "forward": asked.n}
    results: dict[str, list[dict[str, float]]] = {name: [] for name in work}
    for _ in range(asked.repeats):
        for name, n in work.items():
            results[name].append(machine.in_process(__file__, name.split(",")[0], n, asked.d))
    said = {
        "walk": f"qkv: entropy + received + image({PIXELS})",
        "walk, small": f"qkv: entropy + received + image({PIXELS})",
        "dense": "dense NumPy: the same",
        "forward": "qkv: A @ v",
    }
    for name, n in work.items():
        print(line(said[name], n, results[name]))
    peak = max(each["mb"] for each in results["walk"])
    print(f"the walk's peak memory is {peak:.0f} MB, {'within' if peak <= LIMIT_MB else 'OVER'} {LIMIT_MB} MB")


def line(name: str, n: int, results: list[dict[str, float]]) -> str:
    seconds = sorted(each["seconds"] for each in results)
    middle = statistics.median(seconds)
    spread = (seconds[-1] - seconds[0]) / middle
    mb = max(each["mb"] for each in results)
    return f"{name:<38} n = {n:>6,}   {middle:>7.2f} s ± {spread:>4.0%}   {mb:>7,.0f} MB"


if __name__ == "__main__":
    main()
