"""The pixel case: one head over 224 × 224 = 50,176 pixels, and dense NumPy beside it at a size that fits.

    python bench/pixels.py [--n 50176] [--d 64] [--threads 2] [--repeats 3] [--dense-n N]

The causal rows: entropy, received and a picture from one walk, beside dense NumPy; at a small n both are held to each
other first. The full rows, with the goals for this size on two threads: A @ v with lse, then every measure that needs a
second pass (`passes.py`), less what lse and entropy take by themselves.

Each job runs in a process of its own, the kinds in turn, so that its memory is its own. Printed are the median and the
spread (slowest less fastest over the median) of the seconds, the peak of the process's memory, and how much of it came
after the inputs were there. Without --dense-n the dense side takes half of the memory available, and n = 8192 where the
machine does not say how much that is.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import machine
import numpy as np
import passes

import qkv
from qkv import measures

LIMIT_MB, EXTRA_MB = 1500, 40
FORWARD_GOAL, SECOND_GOAL = 3.3, 2.3  # seconds, for 50,176 pixels on two threads
PIXELS = 512
CHECKED_N = 1300  # no multiple of the pixels: some are 2 cells high, some 3
BYTES = 8  # of each cell on the dense side: its score and its weight, both float32

Answer = tuple[np.ndarray, np.ndarray, np.ndarray]  # entropy (n,), received (n,), image (pixels, pixels)
Result = dict[str, float]  # seconds, mb, extra_mb


def arrays(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, d), dtype=np.float32), rng.standard_normal((n, d), dtype=np.float32)


def walk(q: np.ndarray, k: np.ndarray) -> Answer:
    """Entropy, received and a picture from one walk."""
    A = qkv.attend(q, k, causal=True)
    return A.measure(measures.entropy(), measures.received(), measures.image(PIXELS))


def forward(q: np.ndarray, k: np.ndarray) -> None:
    qkv.attend(q, k, causal=True) @ k


def full_forward(q: np.ndarray, k: np.ndarray) -> None:
    """The output of each query and its lse, over all keys."""
    passes.with_lse(qkv.attend(q, k), k)


def full_second(q: np.ndarray, k: np.ndarray) -> float:
    """Seconds of every measure, less those of lse and entropy alone."""
    A, every = qkv.attend(q, k), passes.every_measure(len(q))
    start = time.perf_counter()
    passes.first_pass(A)
    between = time.perf_counter()
    A.measure(*every)
    return (time.perf_counter() - between) - (between - start)


def dense(q: np.ndarray, k: np.ndarray) -> Answer:
    """The same three as `walk` from whole matrices: the scores and the weights, each step written in place."""
    score = (q / np.float32(q.shape[-1] ** 0.5)) @ k.T
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


JOBS: dict[str, Callable[[np.ndarray, np.ndarray], object]] = {
    "walk": walk,
    "forward": forward,
    "dense": dense,
    "full-forward": full_forward,
    "full-second": full_second,
}


def measured(job: str, n: int, d: int) -> Result:
    """One job: its seconds, those that it counts itself where it does, and its memory."""
    q, k = arrays(n, d)
    held, start = machine.forget_peak(), time.perf_counter()
    own = JOBS[job](q, k)
    passed = time.perf_counter() - start
    peak = machine.peak_mb()
    return {"seconds": own if isinstance(own, float) else passed, "mb": peak, "extra_mb": peak - held}


class Row(NamedTuple):
    """A line of a table: its job, what it is called, its size, and its goal in seconds."""

    job: str
    said: str
    n: int
    goal: float | None = None


def rows(n: int, fits: int) -> list[Row]:
    three = f"entropy + received + image({PIXELS})"
    at_once = "" if hasattr(measures, "output") else ", lse by itself"
    return [
        Row("walk", f"causal, {three}", n),
        Row("walk", f"causal, {three}", fits),
        Row("dense", "causal, the same in dense NumPy", fits),
        Row("forward", "causal, A @ v", n),
        Row("full-forward", f"full, A @ v and lse{at_once}", n, FORWARD_GOAL),
        Row("full-second", "full, every measure, the second pass", n, SECOND_GOAL),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=50_176)
    parser.add_argument("--d", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--dense-n", type=int)
    parser.add_argument("--job", choices=JOBS, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.job:
        print(json.dumps(measured(asked.job, asked.n, asked.d)))
        return
    print(f"{machine.described()}, {asked.threads} threads")
    for one, other in zip(walk(*arrays(CHECKED_N, asked.d)), dense(*arrays(CHECKED_N, asked.d)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    work = rows(asked.n, asked.dense_n or machine.dense_n(asked.n, BYTES))
    results: list[list[Result]] = [[] for _ in work]
    for _ in range(asked.repeats):
        for row, found in zip(work, results, strict=True):
            found.append(machine.in_process(__file__, row.job, row.n, asked.d, asked.threads))
    goals = asked.n == parser.get_default("n") and asked.threads == 2  # for another size there are none
    for row, found in zip(work, results, strict=True):
        print(line(row, found, goals))


def line(row: Row, results: list[Result], goals: bool) -> str:
    """A row as text; what is over its goal or limit is MISSED."""
    seconds = sorted(each["seconds"] for each in results)
    middle = statistics.median(seconds)
    spread = (seconds[-1] - seconds[0]) / middle
    mb, extra = (max(each[name] for each in results) for name in ("mb", "extra_mb"))
    said = [f"memory ≤ {LIMIT_MB} MB: {'met' if mb <= LIMIT_MB else 'MISSED'}"] if row.job == "walk" else []
    if row.goal and goals:
        said += [f"≤ {row.goal} s: {'met' if middle <= row.goal else 'MISSED'}"]
        said += [f"≤ {EXTRA_MB} MB more: {'met' if extra <= EXTRA_MB else 'MISSED'}"]
    text = f"{row.said:<44} n = {row.n:>6,} {middle:>8.2f} s ± {spread:>4.0%} {mb:>7,.0f} MB, {extra:>6,.0f} more"
    return f"{text}   {', '.join(said)}".rstrip()


if __name__ == "__main__":
    main()
