"""Sides that take turns: A B C A B C …, so that what else the machine does meets all of them alike."""

import re
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

LEAST = 0.05  # seconds that a turn repeats a call for: one that has slept is up to a sixth slower for its first 15 ms
LONG = 0.1  # seconds of a call beside which those after a change of sides do not count
FEWEST, MOST = 3, 15  # turns
LOOK = 0.01  # seconds of a look at other threads: the system brings their clocks up to date every 4 ms
QUIET = 0.05  # of a core that they may keep busy
PATIENCE = 0.5  # seconds that are waited for them

Turns = dict[str, list[float]]  # of each side, the seconds of each of its turns


class Missing(Exception):
    """Why a side can't be measured here, in a line."""


class Side(NamedTuple):
    """What takes turns with others, and its clock where that is not the one of all."""

    call: Callable[[], object]
    clock: Callable[[], float] | None = None


def seconds(call: Callable[[], object], clock: Callable[[], float], before: list[float]) -> float:
    """Seconds of one call: the mean over a turn of at least LEAST seconds, behind a call that does not count.

    That call meets the caches as the side before left them, and wakes its threads. A long one bears it.
    """
    if not before or before[-1] < LONG:
        call()
    count, start = 0, clock()
    while (passed := clock() - start) < LEAST:
        call()
        count += 1
    return passed / count


def wait_for_quiet() -> None:
    """Let threads of the side before go to sleep: OpenMP's spin for 10 ms behind a call, those of OpenBLAS for 100."""

    def spent() -> float:
        return time.process_time() - time.thread_time()

    end = time.perf_counter() + PATIENCE
    busy = True
    while busy and time.perf_counter() < end:
        before = spent()
        time.sleep(LOOK)
        busy = spent() - before > QUIET * LOOK


def take(sides: dict[str, Side], clock: Callable[[], float], limit: float) -> Turns:
    """Turns of all sides until `limit` seconds of wall time are over: FEWEST at least, MOST at most."""
    turns: Turns = {name: [] for name in sides}
    end = time.perf_counter() + limit
    for turn in range(MOST):
        if turn >= FEWEST and time.perf_counter() > end:
            break
        for name, side in sides.items():
            wait_for_quiet()
            turns[name].append(seconds(side.call, side.clock or clock, turns[name]))
    return turns


def spread(values: list[float]) -> float:
    """How far the quartiles are apart, as a share of the median."""
    if len(values) < 2:
        return 0.0
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / abs(middle) if middle else 0.0


def cause(error: BaseException) -> str:
    """An error in a line of a table: its first line, without the folders of this machine."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    if isinstance(error, ImportError):
        return f"not installed ({lines[0]})"
    text = re.sub(r"(?:/[\w.\-+]+)+/", "", lines[0])
    return text if len(text) <= 160 else text[:157] + "…"
