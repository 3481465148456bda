"""A list of values as horizontal bars, for the top keys of a query."""

import math
from typing import Any

import numpy as np

from qkv.draw import _grid, _labels, _terminal
from qkv.draw._grid import Labels
from qkv.draw._terminal import Mode
from qkv.errors import ArgumentError, DTypeError, ShapeError

__all__ = ["bars"]

EIGHTHS = "▏▎▍▌▋▊▉"
LONGEST = 24
# Columns of the longest bar where the width allows more: a bar of 80 columns is not easier to compare.
WIDEST = 40


def bars(
    values: Any,
    labels: Labels = None,
    *,
    title: str | None = None,
    colour: Mode = "truecolor",
    width: int = 80,
    full: float | None = None,
) -> str:
    """One line for each value, in the order given: label, value, bar. (n,) and n labels -> n lines.

    A bar's length is the value's share of `full`, by default of the largest finite value; a negative value is a light
    bar, a NaN has none. Labels are shown as in `text`, and without any the positions count from 0. Raises ShapeError,
    DTypeError, ArgumentError.

    >>> print(bars([0.5, 0.25], ["cat", "because"], colour="none", full=2.0))
        cat 0.5  ██████████
    because 0.25 █████
    """
    _terminal.check(colour, width)
    numbers = _check(values)
    names = _labels.check("labels", labels, len(numbers), (len(numbers),))
    shown = _labels.shown(names if names is not None else [str(place) for place in range(len(numbers))])
    texts = _labels.shorten([name.text for name in shown], [name.raw for name in shown], min(LONGEST, width // 3))
    figures = [_grid.number(value) or "–" for value in numbers]
    side = max(map(_labels.columns, texts), default=0)
    place = max(map(len, figures), default=0)
    room = min(WIDEST, width - side - place - 2)
    whole = _whole(numbers, full)
    lines = [_terminal.join([(line, _terminal.BOLD[colour])]) for line in _labels.wrap(title, width)]
    for text, figure, value in zip(texts, figures, numbers, strict=True):
        share = 0.0 if math.isnan(value) else max(-1.0, min(1.0, value / whole))
        bar = _terminal.join([(_bar(share, room), _ink(share, colour))])
        lines.append(f"{_terminal.right(text, side)} {figure:<{place}} {bar}".rstrip(" "))
    return "\n".join(lines)


def _check(values: Any) -> list[float]:
    array = np.asarray(values)
    if not np.can_cast(array.dtype, np.float64, "same_kind"):
        raise DTypeError(f"values must be real numbers, not {array.dtype}.")
    if array.ndim != 1:
        raise ShapeError(
            f"values must be one list, (n,), but values.shape = {array.shape}: pick one row, or draw.text the map."
        )
    found: list[float] = array.astype(np.float64).tolist()
    return found


def _whole(numbers: list[float], full: float | None) -> float:
    """The value of the longest bar."""
    if full is None:
        return max((abs(value) for value in numbers if math.isfinite(value)), default=0.0) or 1.0
    if not (math.isfinite(full) and full > 0):
        raise ArgumentError(f"full must be a finite value above 0, not {full!r}.")
    return float(full)


def _bar(share: float, room: int) -> str:
    """A bar of this share of `room` columns, in eighths of a column; a share above zero is never invisible."""
    eighths = round(abs(share) * room * 8)
    if share < 0:
        return "░" * max(1, eighths // 8)
    if share > 0:
        eighths = max(1, eighths)
    whole, part = divmod(eighths, 8)
    return "█" * whole + (EIGHTHS[part - 1] if part else "")


def _ink(share: float, colour: Mode) -> str:
    # The dark end of the colours cannot be read on a dark terminal, so a bar starts a third up.
    code = _terminal.codes([[0.35 + 0.5 * abs(share)]], colour)[0][0]
    return f"38;{code}" if code else ""
