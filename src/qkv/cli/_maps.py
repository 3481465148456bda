"""Several maps of the same tokens beside each other, as many as the terminal is wide, under one scale of colours."""

import math
from collections.abc import Sequence

import numpy as np
from rich.text import Text

from qkv import draw
from qkv._typing import Array
from qkv.cli._terminal import NARROWEST, Colour, bold

GAP = "  "
CELL = 4  # columns of a cell with a number of two digits: ".92 "
EDGES = 2
SHORTEST = 3  # columns of a label over such a cell


def side_by_side(
    maps: Sequence[Array], titles: Sequence[str], tokens: Sequence[str], colour: Colour, width: int
) -> str:
    """Maps (n, n) with a title each, drawn on one scale from 0 to 1; the first of a line carries the tokens."""
    n = len(tokens)
    first = max(len(token) for token in tokens) + CELL * n + EDGES
    other = len(str(n - 1)) + CELL * n + EDGES
    per_line = 1 + max(0, (width - first) // (len(GAP) + other))
    per_line = math.ceil(len(maps) / math.ceil(len(maps) / per_line))  # as many on each line, as far as it goes
    lines: list[str] = []
    legend: list[str] = []
    for start in range(0, len(maps), per_line):
        columns = []
        for at in range(start, min(start + per_line, len(maps))):
            rows, room = (tokens, first) if at == start else (None, other)
            body, legend = _drawn(maps[at], rows, tokens, colour, max(NARROWEST, min(room, width)))
            columns.append([bold(titles[at], colour), *body])
        lines += [*_beside(columns), ""]
    return "\n".join([*lines, *legend])


def _drawn(
    weights: Array, rows: Sequence[str] | None, tokens: Sequence[str], colour: Colour, width: int
) -> tuple[list[str], list[str]]:
    """The lines of a map and those of its legend."""
    short = [token[:SHORTEST] for token in tokens]
    lines = draw.text(np.asarray(weights), rows, short, colour=colour, width=width, limits=(0.0, 1.0)).split("\n")
    # The header is what comes before the first line with a cell, which has an edge or a colour.
    head = next(at for at, line in enumerate(lines) if "│" in line or "\x1b" in line)
    return lines[: head + len(tokens)], lines[head + len(tokens) :]


def _beside(columns: Sequence[Sequence[str]]) -> list[str]:
    """Columns of lines, equally many each, next to each other."""
    wide = [max(columns_of(line) for line in column) for column in columns]
    rows = zip(*columns, strict=True)
    return [
        GAP.join(line + " " * (room - columns_of(line)) for line, room in zip(row, wide, strict=True)).rstrip()
        for row in rows
    ]


def columns_of(line: str) -> int:
    """Columns that a line takes, its colours not counted."""
    return Text.from_ansi(line).cell_len
