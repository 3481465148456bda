"""Every figure of `make bench`: printed, and written to docs/benchmarks.md with the machine, versions and load.

    python bench/tables.py [--threads 1 2] [--only WORD …] [--seconds 540] [--out docs/benchmarks.md]

--only measures the groups whose name has one of the words in it and writes nothing unless --out says where. Each number
of threads has a process of its own, which may use as many CPUs, on cores of their own where Linux says which those are.
After --seconds no group begins. A process that dies or hangs costs the group that it was in; another goes on behind it.
"""

import argparse
import faulthandler
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from importlib import metadata
from pathlib import Path

import machine
from groups import Group, Run, groups
from page import Key, Load, Machine, Value, page
from turns import FEWEST, MOST, Missing, cause, spread

PACKAGES = ("torch", "openvino", "onnxruntime", "onnx", "jax", "ml_dtypes")
SETTINGS = {"TORCHINDUCTOR_COMPILE_THREADS": "1", "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3"}
PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
HANGS = 120  # seconds after which a group is given up
LONGEST = 8.0  # seconds of turns in a group; what is left of --seconds may make it less
DONE = "figures: "  # in front of what a process says of a group


def values_of(group: Group, run: Run) -> list[Value]:
    """The figures of a group, each the median over turns."""
    turns, missing = group.turns(run)
    values = []
    for figure in group.figures:
        lost = [name for name in figure.sides if name not in turns]
        if lost:
            values.append(Value(None, cause=missing.get(lost[0], "not measured")))
            continue
        rows = zip(*(turns[name] for name in figure.sides), strict=True)
        each = [figure.of(dict(zip(figure.sides, row, strict=True)), run.threads) for row in rows]
        values.append(Value(statistics.median(each), spread(each)))
    return values


def measure(chosen: list[int], threads: int, budget: float) -> None:
    """The job of a process: these groups, a line of JSON for each."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, machine.cpus(threads))
    warnings.filterwarnings("ignore")
    known, clock = groups(), time.process_time if threads == 1 else time.perf_counter
    end = time.perf_counter() + budget
    for place, at in enumerate(chosen):
        faulthandler.dump_traceback_later(HANGS, exit=True)
        left = end - time.perf_counter()
        share = left / (len(chosen) - place) / 2  # the other half is for what comes before turns
        run = Run(threads, clock, max(0.0, min(LONGEST, share)))
        try:
            if left < 0:
                raise Missing("no time was left: --seconds gives more")  # noqa: TRY301 (a reason as any other)
            values = values_of(known[at], run)
        except Exception as error:  # noqa: BLE001 (one group less, with its reason)
            values = [Value(None, cause=cause(error))] * len(known[at].figures)
        print(DONE + json.dumps([at, values]), flush=True)


def process(chosen: list[int], threads: int, budget: float) -> dict[int, list[Value]]:
    """What a process measures of these groups; it ends early where it dies."""
    env = {**os.environ, **SETTINGS, **dict.fromkeys(machine.POOLS, str(threads))}
    job = ["--threads", str(threads), "--seconds", str(budget), "--job", *map(str, chosen)]
    command = [sys.executable, __file__, *job]
    found: dict[int, list[Value]] = {}
    known, start = groups(), time.perf_counter()
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as child:  # noqa: S603 (this file)
        for line in child.stdout or ():
            if line.startswith(DONE):
                at, values = json.loads(line.removeprefix(DONE))
                found[at] = [Value(*each) for each in values]
                print(f"{time.perf_counter() - start:5.0f} s  {threads}  {known[at].name}", file=sys.stderr, flush=True)
    if rest := [at for at in chosen if at not in found]:
        died = f"signal {-child.returncode}" if child.returncode < 0 else f"status {child.returncode}"
        why = f"the process ended with {died} in this group, or hung for {HANGS} s"
        found[rest[0]] = [Value(None, cause=why)] * len(known[rest[0]].figures)
    return found


def all_of(chosen: list[int], threads: int, budget: float) -> dict[int, list[Value]]:
    """What processes measure of these groups, one after another until none is left."""
    found: dict[int, list[Value]] = {}
    end = time.perf_counter() + budget
    while rest := [at for at in chosen if at not in found]:
        found |= process(rest, threads, max(0.0, end - time.perf_counter()))
    return found


def versions() -> str:
    said = []
    for name in PACKAGES:
        try:
            said.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            said.append(f"{name} not installed")
    return ", ".join(said)


def load(when: str) -> Load:
    return Load(when, os.getloadavg()[0], machine.busy_cores())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--only", nargs="+", metavar="WORD")
    parser.add_argument("--seconds", type=float, default=540, help="after which no group begins")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--job", nargs="+", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.job:
        measure(asked.job, asked.threads[0], asked.seconds)
        return
    known = groups()
    chosen = [at for at, each in enumerate(known) if not asked.only or any(word in each.name for word in asked.only)]
    found: dict[Key, dict[int, Value]] = {}
    loads, start = [load("before")], time.perf_counter()
    for at, threads in enumerate(asked.threads):
        left = asked.seconds - (time.perf_counter() - start)
        for place, values in all_of(chosen, threads, left / (len(asked.threads) - at)).items():
            for figure, value in zip(known[place].figures, values, strict=True):
                found.setdefault(figure[:3], {})[threads] = value
        loads.append(load(f"after {threads} thread{'s' * (threads > 1)}"))
    on = Machine(machine.described(), versions(), tuple(loads))
    text = page([figure for at in chosen for figure in known[at].figures], found, asked.threads, on, (FEWEST, MOST))
    print(text)
    out = asked.out or (None if asked.only else PAGE)
    if out:
        out.write_text(text, encoding="utf-8")
        print(f"written to {out}, after {time.perf_counter() - start:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
