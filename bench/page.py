"""docs/benchmarks.md: the figures as tables, with what they were measured on."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

import machine
from causes import cause_of
from groups import Figure

Key = tuple[str, str, str]  # table, row, dtype

METHOD = """\
Made by `make bench`; [bench](../bench/README.md) says how. All sides of a table take turns in one process for each
number of threads, {fewest} to {most} turns a side. A figure is the median over the turns of a ratio within a turn;
behind ± stands how far its quartiles are apart, as a share of it. On one thread the clock is the processor time of
the process, which other work on the machine moves little; on more it is the wall, which it moves much. × is the time
of the other side over the time of qkv, unless the row says otherwise: above 1, qkv is the faster.\
"""


class Value(NamedTuple):
    """A figure as one process measured it: its median and spread, or why it has none."""

    median: float | None
    spread: float = 0.0
    cause: str = ""


class Load(NamedTuple):
    """The load, and how many cores others kept busy, before or after something."""

    when: str
    average: float
    busy: float

    def __str__(self) -> str:
        return f"load {self.when}: {self.average:.1f}, others keep {self.busy:.1f} cores busy"


class Machine(NamedTuple):
    """What the figures depend on beside the code."""

    described: str
    versions: str
    loads: tuple[Load, ...]


def met(figure: Figure, value: Value) -> bool | None:
    """Whether a figure has reached its goal; None where it has none, or no value."""
    if figure.goal is None or value.median is None:
        return None
    return value.median <= figure.goal if figure.at_most else value.median >= figure.goal


def number(figure: Figure, value: float) -> str:
    if figure.unit == "%":
        return f"{value:.1%}".replace("%", " %")
    text = f"{value:.3g}" if 0.1 <= value < 1000 else f"{value:,.2f}" if value < 1000 else f"{value:,.0f}"
    return f"{text} {figure.unit}" if figure.unit in ("ms", "µs") else text


def goal(figure: Figure) -> str:
    if figure.goal is None:
        return "–"
    said = f"{figure.goal:.0%}".replace("%", " %") if figure.unit == "%" else f"{figure.goal:g}"
    return f"{'≤' if figure.at_most else '≥'} {said}{' µs' if figure.unit == 'µs' else ''}"


def cell(figure: Figure, value: Value | None) -> str:
    if value is None:
        return "not run"
    if value.median is None:
        return "n/a"
    text = f"{number(figure, value.median)} ± {value.spread:.0%}".replace("%", " %").replace("  %", " %")
    return f"{text}, **missed**" if met(figure, value) is False else text


def table(figures: list[Figure], found: dict[Key, dict[int, Value]], threads: list[int]) -> Iterator[str]:
    """A table in Markdown, its columns as wide as their cells, and below it why figures are missing or miss goals."""
    heads = ["", "dtype", "goal", *(f"{n} thread{'s' * (n > 1)}" for n in threads)]
    rows, causes = [heads], []
    for figure in figures:
        values = found.get(figure[:3], {})
        rows.append([figure.row, figure.dtype, goal(figure), *(cell(figure, values.get(n)) for n in threads)])
        why = list(dict.fromkeys(each.cause for each in values.values() if each.median is None))
        causes += [f"- n/a: {figure.row}, {figure.dtype}: {each}" for each in why]
    wide = [max(len(row[at]) for row in rows) for at in range(len(heads))]
    lines = ["| " + " | ".join(each.ljust(n) for each, n in zip(row, wide, strict=True)) + " |" for row in rows]
    yield from (lines[0], "|" + "|".join("-" * (n + 2) for n in wide) + "|", *lines[1:])
    missed: dict[str, list[str]] = {}
    for figure in figures:
        if any(met(figure, each) is False for each in found.get(figure[:3], {}).values()):
            missed.setdefault(cause_of(figure), []).append(f"{figure.row}, {figure.dtype}")
    causes += [f"- missed: {'; '.join(rows)}. {why}" for why, rows in missed.items()]
    if causes:
        yield from ("", *causes)


def summary(figures: list[Figure], found: dict[Key, dict[int, Value]]) -> str:
    """How many figures there are, and what became of those with a goal."""
    values = [(figure, value) for figure in figures for value in found.get(figure[:3], {}).values()]
    verdicts = [met(*each) for each in values]
    missing = sum(value.median is None for _, value in values)
    with_goal = sum(each is not None for each in verdicts)
    return (
        f"{len(values)} figures, {with_goal} with a goal: {verdicts.count(True)} reach it, "
        f"{verdicts.count(False)} **missed**; {missing} n/a."
    )


def page(
    figures: list[Figure], found: dict[Key, dict[int, Value]], threads: list[int], on: Machine, turns: tuple[int, int]
) -> str:
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    lines = ["# Benchmarks", "", METHOD.format(fewest=turns[0], most=turns[1]), "", f"- {now}", f"- {on.described}"]
    lines += [f"- {on.versions}", *(f"- {each}" for each in on.loads), "", summary(figures, found)]
    if max(threads) > 1 and max(each.busy for each in on.loads) > machine.IDLE:
        lines[-1] += (
            " Others were at work meanwhile: what the wall clock says of more threads than one is worth little."
        )
    for name in dict.fromkeys(figure.table for figure in figures):
        own = [figure for figure in figures if figure.table == name]
        lines += ["", f"## {name}", "", *table(own, found, threads)]
    return "\n".join(lines) + "\n"
