"""The pixel case: one causal head over 224 × 224 = 50,176 pixels, beside dense NumPy at the largest size that fits.

    python bench/pixels.py [--n 50176] [--d 64] [--repeats 3]

Each job runs in a process of its own, the two kinds in turn, so that its peak memory is its own. Printed are the median
and the spread (slowest less fastest over the median) of the seconds, and the peak of the process's memory.
"""

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import qkv
from qkv import measures

LIMIT_MB = 1500


def arrays(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, d), dtype=np.float32), rng.standard_normal((n, d), dtype=np.float32)


def walk(n: int, d: int) -> None:
    """Entropy, received and a picture of 512 × 512 from one walk."""
    q, k = arrays(n, d)
    qkv.attend(q, k, causal=True).measure(measures.entropy(), measures.received(), measures.image(512))


def forward(n: int, d: int) -> None:
    q, k = arrays(n, d)
    qkv.attend(q, k, causal=True) @ k


def dense(n: int, d: int) -> None:
    """The same three numbers from the whole matrix, written with as few copies as NumPy allows."""
    q, k = arrays(n, d)
    score = (q / np.float32(d**0.5)) @ k.T
    score[np.triu_indices(n, 1) if n < 2000 else np.tri(n, dtype=bool) == 0] = -np.inf
    weight = np.exp(score - score.max(axis=-1, keepdims=True))
    total = weight.sum(axis=-1, keepdims=True)
    weight /= total
    with np.errstate(divide="ignore", invalid="ignore"):
        np.nansum(np.multiply(weight, np.log(weight), out=score), axis=-1)
    weight.sum(axis=0)
    side = n // 512 * 512
    weight[:side, :side].reshape(512, side // 512, 512, side // 512).mean(axis=(1, 3))


JOBS = {"walk": walk, "forward": forward, "dense": dense}


def run(job: str, n: int, d: int) -> dict[str, float]:
    """One job in a process of its own: seconds, and peak memory in MB."""
    command = [sys.executable, __file__, "--job", job, "--n", str(n), "--d", str(d)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 (this file itself)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=50_176)
    parser.add_argument("--d", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--job", choices=JOBS, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.job:
        start = time.perf_counter()
        JOBS[asked.job](asked.n, asked.d)
        seconds = time.perf_counter() - start
        print(json.dumps({"seconds": seconds, "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000}))
        return
    print(machine())
    fits = min(asked.n, largest_dense())
    work = {"walk": asked.n, "walk, small": fits, "dense": fits, "forward": asked.n}
    results: dict[str, list[dict[str, float]]] = {name: [] for name in work}
    for _ in range(asked.repeats):
        for name, n in work.items():
            results[name].append(run(name.split(",")[0], n, asked.d))
    said = {
        "walk": "qkv: entropy + received + image(512)",
        "walk, small": "qkv: entropy + received + image(512)",
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


def largest_dense() -> int:
    """The largest n whose arrays, 13 bytes a cell at the widest step, take half of the free memory."""
    available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return int((available / 2 / 13) ** 0.5) // 512 * 512


def machine() -> str:
    names = [each for each in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if "model name" in each]
    name = names[0].split(":")[1].strip() if names else platform.processor()
    load = os.getloadavg()[0]
    return (
        f"{name}, {os.cpu_count()} cores, load {load:.1f}, Python {platform.python_version()}, NumPy {np.__version__}"
    )


if __name__ == "__main__":
    main()
