"""What the benchmarks share: the machine they ran on, the memory it has left, and a job in a process of its own."""

import contextlib
import json
import math
import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

POOLS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NPROC",
)  # how libraries are told; NPROC is JAX's
IDLE = 0.2  # cores that others may keep busy while the wall clock measures more threads than one
UNKNOWN = 1 << 30  # bytes that are taken to be left where the machine does not say: n = 8192 for 8 bytes a cell


def described() -> str:
    """The processor, its cores, how busy they are, and the versions that matter."""
    load = os.getloadavg()[0]
    return (
        f"{_processor()}, {os.cpu_count()} cores, load {load:.1f}, Python {platform.python_version()}, "
        f"NumPy {np.__version__}"
    )


def _processor() -> str:
    names = [line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _lines(path: str) -> list[str]:
    """The lines of a file of Linux, none where there is no such file."""
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def _bytes(path: str, name: str) -> int | None:
    """A size that Linux gives in kB, in bytes; None where it gives none."""
    sizes = [int(line.split()[1]) * 1024 for line in _lines(path) if line.startswith(f"{name}:")]
    return sizes[0] if sizes else None


def busy_cores(seconds: float = 1.0) -> float:
    """How many cores all processes keep busy while this one sleeps; the load where the system does not say."""

    def counted() -> tuple[int, int] | None:
        lines = [line.split()[1:] for line in _lines("/proc/stat") if line.startswith("cpu ")]
        ticks = [int(each) for each in lines[0][:8]] if lines else []  # the rest is counted in these already
        return (sum(ticks), ticks[3] + ticks[4]) if ticks else None  # idle, and waiting for a disk

    before = counted()
    time.sleep(seconds)
    after = counted()
    if before is None or after is None or after[0] == before[0]:
        return os.getloadavg()[0]
    idle = (after[1] - before[1]) / (after[0] - before[0])
    return (os.cpu_count() or 1) * (1 - idle)


def cpus(threads: int) -> list[int]:
    """CPUs for as many threads, of different cores first; only Linux says which it has."""
    own: dict[str, list[int]] = {}
    for cpu in sorted(os.sched_getaffinity(0)):
        beside = _lines(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        own.setdefault(beside[0] if beside else str(cpu), []).append(cpu)
    by_turn = sorted((place, cpu) for each in own.values() for place, cpu in enumerate(each))
    return [cpu for _, cpu in by_turn][:threads]


def available() -> int:
    """Bytes that a process may take without making the machine swap."""
    if (free := _bytes("/proc/meminfo", "MemAvailable")) is not None:
        return free
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):  # macOS has no such name
        return UNKNOWN


def dense_n(most: int, bytes_per_cell: int) -> int:
    """The largest n, `most` at most, whose n × n cells take half of the memory available."""
    return max(1, min(most, math.isqrt(available() // 2 // bytes_per_cell)))


def peak_mb() -> float:
    """The most memory that this process has held, in MB."""
    # On Linux ru_maxrss begins with the peak of the process that started this one.
    if (peak := _bytes("/proc/self/status", "VmHWM")) is not None:
        return peak / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak / 1e3  # macOS counts bytes, others kB


def forget_peak() -> float:
    """The memory that this process holds now, in MB, from which on `peak_mb` counts where Linux lets it."""
    with contextlib.suppress(OSError):  # the peak so far stays then, and counts as taken afterwards
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    held = _bytes("/proc/self/status", "VmRSS")
    return peak_mb() if held is None else held / 1e6


def in_process(file: str, job: str, n: int, d: int, threads: int | None = None) -> dict[str, float]:
    """What a job of a benchmark prints, run in a process of its own, with as many threads where a number is given."""
    command = [sys.executable, file, "--job", job, "--n", str(n), "--d", str(d)]
    pools = {} if threads is None else dict.fromkeys(POOLS, str(threads))
    env = {**os.environ, **pools}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=env)  # noqa: S603 (one of these files)
    return dict(json.loads(done.stdout))
