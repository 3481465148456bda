"""The benchmarks: what is missed is shown, what is missing says why, and the command runs."""

import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from repo.tree import ROOT

BENCH = ROOT / "bench"
OURS = {path.stem for path in BENCH.glob("*.py")}


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The modules of the folder, which import each other by their bare names."""
    monkeypatch.syspath_prepend(str(BENCH))
    yield SimpleNamespace(**{name: import_module(name) for name in ("causes", "groups", "page", "tables", "turns")})
    for name in OURS:
        sys.modules.pop(name, None)


def figure(bench: Any, **how: Any) -> Any:
    plain = {"table": "A table", "row": "a row", "dtype": "float32", "unit": "×", "sides": ("qkv",)}
    return bench.groups.Figure(**plain | {"of": lambda turn, threads: turn["qkv"] * threads} | how)


def test_a_missed_goal_stands_beside_what_was_measured(bench: Any) -> None:
    missed, reached = figure(bench, goal=2.0), figure(bench, row="another", goal=2.0, at_most=True)
    found = {each[:3]: {1: bench.page.Value(1.5, 0.04)} for each in (missed, reached)}
    first, second, _, why = list(bench.page.table([missed, reached], found, [1]))[2:]
    assert why == "- missed: a row, float32. Its cause was not measured."
    assert "≥ 2" in first and "1.5 ± 4 %, **missed**" in first
    assert "≤ 2" in second and "1.5 ± 4 %" in second and "missed" not in second


def test_a_side_that_is_missing_says_why_and_the_rest_goes_on(bench: Any) -> None:
    def absent() -> Any:
        raise ImportError("No module named 'absent'")

    sides, missing = bench.groups.opened({"qkv": lambda: bench.turns.Side(lambda: None), "absent": absent})
    assert list(sides) == ["qkv"]
    figures = (figure(bench), figure(bench, row="absent", sides=("absent", "qkv")))
    group = bench.groups.Group("a group", figures, lambda run: ({"qkv": [1.0, 2.0, 3.0]}, missing))
    known, lost = bench.tables.values_of(group, bench.groups.Run(2, lambda: 0.0, 0.0))
    assert known.median == 4.0
    assert lost.median is None and lost.cause == "not installed (No module named 'absent')"


def test_a_cause_is_a_line_without_the_folders_of_a_machine(bench: Any) -> None:
    place = (BENCH / "peak.so").as_posix()
    assert bench.turns.cause(OSError(f"cannot open {place}: no\nmore")) == "cannot open peak.so: no"


def test_a_turn_waits_until_other_threads_are_quiet(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    others = SimpleNamespace(
        sleep=slept.append,
        process_time=lambda: 0.01 * min(len(slept), 3),  # others are at work during three sleeps
        thread_time=lambda: 0.0,
        perf_counter=lambda: 0.0,
    )
    monkeypatch.setattr(bench.turns, "time", others)
    begun: list[int] = []
    side = bench.turns.Side(lambda: begun.append(len(slept)), clock=count(step=0.008).__next__)
    bench.turns.take({"qkv": side}, others.perf_counter, 1.0)
    assert begun[0] == 4 and len(slept) == 3 + bench.turns.MOST


def test_every_group_has_a_name_and_every_figure_a_place_of_its_own(bench: Any) -> None:
    known = bench.groups.groups()
    assert len({group.name for group in known}) == len(known)
    places = [each[:3] for group in known for each in group.figures]
    assert len(set(places)) == len(places)


def test_every_cause_is_that_of_a_figure_with_a_goal(bench: Any) -> None:
    known = [each for group in bench.groups.groups() for each in group.figures if each.goal is not None]
    assert {bench.causes.cause_of(each) for each in known} >= {each.said for each in bench.causes.CAUSES}


def test_the_command_prints_its_table() -> None:
    asked = ["--only", "call", "--threads", "1", "--seconds", "10"]
    command = [sys.executable, str(BENCH / "tables.py"), *asked]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "a call of qkv.attention" in done.stdout and "µs ±" in done.stdout
