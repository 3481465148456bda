"""Figures as a terminal shows them: a number with its standard error, a table, a small plot."""

import math
from collections.abc import Mapping, Sequence

from rich.cells import cell_len

from qkv.experiments import Estimate

GAP = 2
HEIGHT = 8  # steps of a plot between its lowest and its highest line
STEP = 7  # columns from one point of a plot to the next
MOST_DECIMALS = 6
SMALL = 5e-4  # a value below this is written with its power of ten


def figure(estimate: Estimate) -> str:
    """The value and its standard error, of which two digits count: 0.4919 ±0.0046."""
    value, error = estimate.value, estimate.standard_error
    if error == 0:
        text = f"{value:g} ±0"
    elif 0 < abs(value) < SMALL:
        text = f"{value:.1e} ±{error:.0e}"
    else:
        decimals = max(0, min(MOST_DECIMALS, 1 - math.floor(math.log10(error))))
        text = f"{value:.{decimals}f} ±{error:.{decimals}f}"
    return f"−{text[1:]}" if value < 0 else text


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], groups: Mapping[str, int] | None = None) -> str:
    """Right-aligned columns under their names; `groups` names how many columns each heading above them spans."""
    lines = [columns, *rows]
    wide = [max(cell_len(line[at]) for line in lines) for at in range(len(columns))]
    text = [
        (" " * GAP).join(" " * (wide[at] - cell_len(cell)) + cell for at, cell in enumerate(line)) for line in lines
    ]
    if groups is None:
        return "\n".join(text)
    heading, start = [], 0
    for name, span in groups.items():
        room = sum(wide[start : start + span]) + GAP * (span - 1)
        heading.append(name.strip().center(room) if span > 1 else name.strip().rjust(room))
        start += span
    return "\n".join([(" " * GAP).join(heading).rstrip(), *text])


def plot(
    places: Sequence[str], series: Mapping[str, Sequence[float]], *, high: float, across: str, low: float = 0.0
) -> str:
    """Points over places, one mark a series, the first character of its name; where two meet, the later one shows.

    high, low: the values of the highest and the lowest line. across: what the places are.
    """
    grid = [[" "] * (STEP * len(places)) for _ in range(HEIGHT + 1)]
    for name, values in series.items():
        for at, value in enumerate(values):
            share = min(1.0, max(0.0, (value - low) / (high - low)))
            grid[HEIGHT - round(share * HEIGHT)][STEP * at + STEP // 2] = name[0]
    labels = {0: f"{high:g}", HEIGHT // 2: f"{(high + low) / 2:g}", HEIGHT: f"{low:g}"}
    side = max(map(len, labels.values()))
    lines = [f"{labels.get(at, ''):>{side}} │{''.join(row)}".rstrip() for at, row in enumerate(grid)]
    ticks = "".join(place.center(STEP) for place in places).rstrip()
    return "\n".join([*lines, f"{'':{side}}  {ticks}  {across}", f"{'':{side}}  {'   '.join(series)}"])
