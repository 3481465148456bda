"""A map as lines of a terminal: token labels, coloured or shaded cells, numbers where there is room.

    >>> print(text([[1.0, float("nan")], [0.25, 0.75]], ["the", "cat"], ["the", "cat"], colour="none"))
         the  cat
    the│ 1.0   ·  │
    cat│ .25  .75 │
    0.25 │ ░░░░░▒▒▒▒▓▓▓▓▓█████│ 1   · hidden   queries ↓  keys →

A cell is as wide as the room allows: with its number, two columns, one column. Longer column labels are written
downwards; over cells of one column stand the positions' numbers, which the rows carry beside their labels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qkv.draw import _grid, _labels, _terminal
from qkv.draw._grid import Checked, Contrast, Grid, Labels, Limits
from qkv.draw._labels import Label
from qkv.draw._terminal import Mode, Run
from qkv.errors import ArgumentError

__all__ = ["text"]

# Columns that a row label takes at most, and how few it is cut to before the cells get narrower: (cell width, columns).
LONGEST = 24
SHORTEST = {1: 6, 2: 10}
# Lines that a column label takes at most.
DEEPEST = 12
# A pooled axis is numbered at every so many lines and columns.
TICK_LINES, TICK_COLUMNS = 4, 10


def text(
    weights: Any,
    rows: Labels = None,
    columns: Labels = None,
    *,
    visible: Any = None,
    title: str | None = None,
    axes: tuple[str, str] = ("queries", "keys"),
    colour: Mode = "truecolor",
    width: int = 80,
    height: int = 64,
    numbers: bool = True,
    limits: Limits = None,
    contrast: Contrast = "linear",
) -> str:
    """A map for the terminal: weights (n_q, n_k), n_q row and n_k column labels -> lines, the last without newline.

    A map of more than `height` rows, or too wide for `width` columns, is pooled by max and says so. A weight that is
    NaN or −inf, or where `visible` (bool, broadcasts to the map) is False, is hidden and has no say in the colours.

    axes      what the rows and the columns are
    colour    "truecolor", "256" (xterm's palette) or "none" (shades, not one escape sequence)
    numbers   print the weights in their cells where all of them fit
    limits    (low, high), the values at the ends of the colours; None: the smallest and the largest shown
    contrast  "root": colours follow the square root of the linear scale, which spreads small weights apart

    No label is sent raw: blanks, control characters and escape sequences become visible. Raises ShapeError for sizes
    that do not fit, DTypeError for what is no real number, ArgumentError for an option out of range.
    """
    _terminal.check(colour, width)
    if height < 1:
        raise ArgumentError(f"height must be at least 1 row, not {height}.")
    checked = _grid.check(weights, rows, columns, visible=visible, limits=limits, contrast=contrast)
    heading = [_terminal.join([(line, _terminal.BOLD[colour])]) for line in _labels.wrap(title, width)]
    if 0 in checked.shape:
        return "\n".join([*heading, _grid.nothing(checked.shape)])
    plan = _in_full(checked, width, height, numbers=numbers) or _pooled(checked, width, height, colour)
    names = _labels.shorten([_labels.line(name) for name in axes], axes, 16)
    lines = [*heading, *_body(plan, colour), *_legend(plan, names, colour, width)]
    return "\n".join(line.rstrip(" ") for line in lines)


@dataclass(frozen=True)
class _Plan:
    """Where things stand: a name for each line, `cell` columns for each cell, one or (halves) two cells on a line."""

    grid: Grid
    names: list[str]
    cell: int
    header: list[str]
    #: "0 the", "1 cat", …: what numbers mean that stand for labels, of the rows (0) and of the columns (1).
    keys: dict[int, list[str]]
    figures: list[list[str]] | None = None
    halves: bool = False


def _in_full(checked: Checked, width: int, height: int, *, numbers: bool) -> _Plan | None:
    """Every weight in a cell of its own, in the widest cell that leaves room for the labels; None where none does."""
    n_q, n_k = checked.shape
    if n_q > height or n_k > width:
        return None
    grid = checked.grid(checked.shape)
    figures = grid.figures() if numbers else None
    longest = max(len(figure) for row in figures for figure in row) if figures else 0
    wide = [longest + 2, longest + 1] if longest > 1 else []
    for cell in [*wide, 2, 1]:
        numbered = cell == 1 and checked.rows is not None
        room = width - 2 - cell * n_k - (len(str(n_q)) + 1 if numbered else 0)
        need = max(_labels.columns(label.text) for label in grid.rows)
        if room < min(need, SHORTEST.get(cell, 10)):
            continue
        names = _short(grid.rows, min(LONGEST, max(room, 6)))
        if numbered:
            names = [f"{name} {place:>{len(str(n_q - 1))}}" for place, name in enumerate(names)]
        header = _header(grid.columns, cell)
        keys = _keys(checked, grid, rows=False) if cell == 1 else {}
        return _Plan(grid, names, cell, header, keys, figures if cell > 2 else None)
    return None


def _pooled(checked: Checked, width: int, height: int, colour: Mode) -> _Plan:
    """Cells of one column, two of them on a line (as half blocks) where the map is long or square."""
    n_q, n_k = checked.shape
    halves = n_q > height or n_q == n_k
    side = len(str(n_q)) if halves or checked.rows is None else min(LONGEST, width // 3)
    most = width - 2 - side
    if colour == "none":
        grid = checked.grid((height, most), tall=halves)
        halves = False
    else:
        grid = checked.grid((2 * height if halves else height, most))
    numbered = halves or grid.block[0] > 1
    if numbered:
        starts = [str(place * grid.block[0]) for place in range(0, len(grid.rows), 2 if halves else 1)]
        names = [start if line % TICK_LINES == 0 else "" for line, start in enumerate(starts)]
    else:
        names = _short(grid.rows, side)
    ticks = [f"{place * grid.block[1]:<{TICK_COLUMNS}}" for place in range(0, len(grid.columns), TICK_COLUMNS)]
    return _Plan(grid, names, 1, ["".join(ticks)], _keys(checked, grid, rows=numbered), halves=halves)


def _short(labels: Sequence[Label], limit: int) -> list[str]:
    return _labels.shorten([label.text for label in labels], [label.raw for label in labels], limit)


def _header(labels: Sequence[Label], cell: int) -> list[str]:
    """Column labels: on one line where they fit, else written downwards; over one-column cells, their numbers."""
    names = [str(place) for place in range(len(labels))] if cell == 1 else _short(labels, DEEPEST)
    if all(_labels.columns(name) < cell for name in names):
        return ["".join(_terminal.centre(name, cell) for name in names)]
    stacks = [_labels.clusters(name) for name in names]
    depth = max(map(len, stacks))
    stacks = [[""] * (depth - len(stack)) + stack for stack in stacks]
    return ["".join(_terminal.centre(stack[line], cell) for stack in stacks) for line in range(depth)]


def _keys(checked: Checked, grid: Grid, *, rows: bool) -> dict[int, list[str]]:
    """The labels that stand nowhere else, by number; an axis that is pooled has none to list."""
    listed = {}
    if rows and checked.rows is not None and grid.block[0] == 1:
        listed[0] = grid.rows
    if checked.columns is not None and checked.columns != checked.rows and grid.block[1] == 1:
        listed[1] = grid.columns
    return {
        axis: [f"{place} {name}" for place, name in enumerate(_short(labels, LONGEST - 8))]
        for axis, labels in listed.items()
    }


def _body(plan: _Plan, colour: Mode) -> list[str]:
    """The header and the lines of the map, each behind its name."""
    side = max(map(_labels.columns, plan.names))
    place = plan.grid.position()
    rows = _halves(place, colour) if plan.halves else _cells(plan, place, colour)
    # Without colour nothing else shows where a line of light cells ends.
    edge = "│" if colour == "none" else ""
    lines = [
        _terminal.right(name, side) + (edge or " ") + _terminal.join(runs) + edge
        for name, runs in zip(plan.names, rows, strict=True)
    ]
    return [" " * (side + 1) + line for line in plan.header] + lines


def _cells(plan: _Plan, place: _grid.Floats, colour: Mode) -> list[list[Run]]:
    """One row of cells a line."""
    shades = _terminal.shades(place)
    lines = []
    for i, codes in enumerate(_terminal.codes(place, colour)):
        line = []
        for j, code in enumerate(codes):
            if np.isnan(place[i, j]):
                line.append((_terminal.centre(_terminal.HIDDEN, plan.cell), _terminal.FAINT[colour]))
            elif plan.figures:
                line.append((f"{plan.figures[i][j]:>{plan.cell - 1}} ", _terminal.on(code)))
            elif colour == "none":
                line.append((shades[i][j] * plan.cell, ""))
            else:
                line.append((" " * plan.cell, f"48;{code}"))
        lines.append(line)
    return lines


def _halves(place: _grid.Floats, colour: Mode) -> list[list[Run]]:
    """Two rows of cells a line: the upper as the ink of ▀, the lower as its ground."""
    if len(place) % 2:
        place = np.concatenate([place, np.full((1, place.shape[1]), np.nan)])
    codes = _terminal.codes(place, colour)
    return [
        [_half(upper, lower, colour) for upper, lower in zip(codes[line], codes[line + 1], strict=True)]
        for line in range(0, len(codes), 2)
    ]


def _half(upper: str, lower: str, colour: Mode) -> Run:
    if upper and lower:
        return "▀", f"38;{upper};48;{lower}"
    if upper or lower:
        return ("▀", f"38;{upper}") if upper else ("▄", f"38;{lower}")
    return _terminal.HIDDEN, _terminal.FAINT[colour]


def _legend(plan: _Plan, axes: Sequence[str], colour: Mode, width: int) -> list[str]:
    """What the colours, the dots, the axes and the numbers over the columns mean, and what was pooled."""
    grid = plan.grid
    items: list[list[Run]] = []
    if grid.low < grid.high:
        low, high = _grid.number(grid.low), _grid.number(grid.high)
        steps = np.linspace(0.0, 1.0, min(20, width - len(low) - len(high) - 4))[None]
        if colour == "none":
            bar = [("│" + "".join(_terminal.shades(steps)[0]) + "│", "")]
        else:
            bar = [(" ", f"48;{code}") for code in _terminal.codes(steps, colour)[0]]
        items.append([(f"{low} ", ""), *bar, (f" {high}", "")])
    elif not grid.blank:
        items.append([(f"every shown weight is {_grid.number(grid.low)}", "")])
    if grid.hides:
        items.append([(f"{_terminal.HIDDEN} hidden" + (", all of it" if grid.blank else ""), "")])
    down, across = axes
    items.append([(f"{down} ↓  {across} →", "")])
    lists = [[f"{axes[axis]} by number:", *names] for axis, names in plan.keys.items()]
    return [
        *(line for names in lists for line in _terminal.fill(([(name, "")] for name in names), width)),
        *_terminal.fill(items, width),
        *_labels.wrap(grid.pooling() or None, width),
    ]
