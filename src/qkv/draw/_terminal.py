"""What the terminal views share: colour modes, shades, runs of one style, lines filled with short items."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from qkv.draw import _labels, colour as _colour
from qkv.errors import ArgumentError

__all__ = ["HIDDEN", "Mode", "Run", "centre", "check", "codes", "fill", "join", "on", "right", "shades"]

Mode: TypeAlias = Literal["truecolor", "256", "none"]
# Characters and the style they are written in: the numbers of an SGR escape (ECMA-48), "" for none.
Run: TypeAlias = tuple[str, str]

HIDDEN = "·"
SHADES = " ░▒▓█"
NARROWEST = 40
GAP = "   "
# Grey that can be read on black and on white.
FAINT = {"truecolor": "38;2;128;128;128", "256": "38;5;244", "none": ""}
BOLD = {"truecolor": "1", "256": "1", "none": ""}


def check(colour: Mode, width: int) -> None:
    """The arguments that every terminal view has."""
    if colour not in {"truecolor", "256", "none"}:
        raise ArgumentError(f'colour must be "truecolor", "256" or "none", not {colour!r}.')
    if width < NARROWEST:
        raise ArgumentError(f"width must be at least {NARROWEST} columns, not {width}.")


def codes(place: npt.ArrayLike, colour: Mode) -> list[list[str]]:
    """The colour of each place as SGR writes it after 38 or 48: (n, m) in [0, 1] -> strings, "" for none."""
    places = np.asarray(place, np.float64)
    shown = ~np.isnan(places)
    if colour == "none":
        return [[""] * places.shape[1] for _ in range(places.shape[0])]
    if colour == "256":
        found = [[f"5;{index}" for index in row] for row in _colour.index256(places).tolist()]
    else:
        found = [[f"2;{red};{green};{blue}" for red, green, blue in row] for row in _colour.rgb(places).tolist()]
    return [[code if there else "" for code, there in zip(*row, strict=True)] for row in zip(found, shown, strict=True)]


def on(code: str) -> str:
    """The style of text on a ground of this colour: dark or light, as can be read there."""
    if not code:
        return ""
    mode, *parts = (int(part) for part in code.split(";"))
    red, green, blue = _colour.ink(_colour.palette(parts[0]) if mode == 5 else parts)
    if mode == 2:
        return f"48;{code};38;2;{red};{green};{blue}"
    return f"48;{code};38;5;{16 if red < 128 else 231}"


def shades(place: npt.ArrayLike) -> list[list[str]]:
    """One shaded character for each place: (n, m) in [0, 1], the dot of hidden cells for NaN."""
    places = np.asarray(place, np.float64)
    # Blank only where a weight is next to nothing; the other shades share the rest evenly.
    level = np.searchsorted([0.05, 0.2875, 0.525, 0.7625], np.nan_to_num(places), side="right")
    found: list[list[str]] = np.where(np.isnan(places), HIDDEN, np.array(list(SHADES))[level]).tolist()
    return found


def join(runs: Iterable[Run]) -> str:
    """Runs as one string: neighbours of one style share an escape, and each is closed, so that a line ends plain."""
    parts = []
    for sgr, group in groupby(runs, key=lambda run: run[1]):
        text = "".join(run[0] for run in group)
        parts.append(f"\x1b[{sgr}m{text}\x1b[0m" if sgr else text)
    return "".join(parts)


def centre(text: str, width: int) -> str:
    """Text in the middle of `width` columns, measured as the terminal does."""
    left, rest = divmod(max(0, width - _labels.columns(text)), 2)
    return " " * left + text + " " * (left + rest)


def right(text: str, width: int) -> str:
    """Text at the right end of `width` columns, measured as the terminal does."""
    return " " * (width - _labels.columns(text)) + text


def fill(items: Iterable[Sequence[Run]], width: int) -> list[str]:
    """Items side by side, as many on a line as fit into `width` columns."""
    lines: list[list[Run]] = []
    used = 0
    for item in items:
        size = sum(_labels.columns(text) for text, _ in item)
        if lines and used + len(GAP) + size <= width:
            lines[-1] += [(GAP, ""), *item]
            used += len(GAP) + size
        else:
            lines.append([*item])
            used = size
    return [join(line) for line in lines]
