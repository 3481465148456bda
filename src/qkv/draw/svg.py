"""A map as SVG: every cell a rectangle that says on hover which query, which key, how much."""

import html
from collections.abc import Sequence
from typing import Any

import numpy as np

from qkv.draw import _grid, _labels, colour as _colour
from qkv.draw._grid import Checked, Contrast, Grid, Labels, Limits
from qkv.draw._labels import Label
from qkv.draw._vector import SANS, Canvas

__all__ = ["describe", "figure", "svg"]

# Cells drawn at most, per side: 9,216 rectangles with their titles are about 1 MB.
MOST = 96
# Columns that a label, a name inside a cell's title and a line of text take at most.
LONGEST, NAMED, LINE = 24, 60, 76
MARGIN, GAP = 14, 7
# Ink for pictures that stand alone; inside a page they inherit the page's.
STYLE = (
    "<style>.qkv-map{color:#1f2328}@media(prefers-color-scheme:dark){.qkv-map{color:#e6edf3}}"
    ".qkv-map rect:hover{stroke:currentColor;stroke-width:.08}</style>"
)


def svg(
    weights: Any,
    rows: Labels = None,
    columns: Labels = None,
    *,
    visible: Any = None,
    title: str | None = None,
    subtitle: str | None = None,
    axes: tuple[str, str] = ("queries", "keys"),
    numbers: bool = True,
    limits: Limits = None,
    contrast: Contrast = "linear",
) -> str:
    """A map as a complete SVG image: weights (n_q, n_k), n_q row labels, n_k column labels -> XML text.

    A map of more than 96 positions a side is pooled by max, and the picture says so. Labels longer than 24 columns are
    shortened so that they stay different; the `<title>` (the tooltip) of each label has it in full, the `<title>` of
    each cell names its query, its key and its value. Ink follows the reader's light or dark mode. No script, no font
    file, no link. `visible`, `axes`, `numbers`, `limits`, `contrast` and hidden weights are as in `png`. Raises
    ShapeError, DTypeError, ArgumentError.
    """
    checked = _grid.check(weights, rows, columns, visible=visible, limits=limits, contrast=contrast)
    return figure(checked, axes, title, subtitle, numbers=numbers, style=STYLE)


def figure(
    checked: Checked, axes: tuple[str, str], title: str | None, subtitle: str | None, *, numbers: bool, style: str
) -> str:
    """The `<svg>` element of a checked map. Without a `style` its ink is that of the page around it."""
    canvas = Canvas(MARGIN)
    left, top = 0.0, -12.0
    if 0 in checked.shape:
        canvas.write(0, 0, _grid.nothing(checked.shape), 14, family=SANS)
    else:
        grid = checked.grid((MOST, MOST))
        figures = grid.figures() if numbers and max(checked.shape) <= 16 else None
        cell = (46.0, 46.0) if figures else _cell(grid)
        _cells(canvas, grid, cell)
        if figures:
            _figures(canvas, grid, figures, cell)
        left = _row_labels(canvas, grid, cell[1], axes[0])
        top = _column_labels(canvas, grid, cell[0], axes[1])
        _legend(canvas, grid, cell, left)
    lines = [(line, 18, False) for line in _labels.wrap(title, LINE, joined=True)]
    lines += [(line, 13, True) for line in _labels.wrap(subtitle, LINE, joined=True)]
    for line, size, faint in reversed(lines):
        top -= 1.5 * size
        canvas.write(left, top, line, size, family=SANS, faint=faint)
    return canvas.element(describe(checked, axes), style)


def describe(checked: Checked, axes: tuple[str, str]) -> str:
    """The map in a sentence, for a caption and for readers who hear the page."""
    n_q, n_k = checked.shape
    rows, columns = (_labels.line(name, joined=True) for name in axes)
    return f"Heat map of {n_q} × {n_k} weights: rows are {rows}, columns are {columns}."


def _cell(grid: Grid) -> tuple[float, float]:
    """Width and height of a cell: one size for both where that does not make a ribbon of the map."""
    counts = grid.values.shape
    height, width = (float(max(12, min(34, 900 // count))) for count in counts)
    both = min(width, height)
    return (both, both) if max(counts) <= 4 * min(counts) else (width, height)


def _cells(canvas: Canvas, grid: Grid, cell: tuple[float, float]) -> None:
    """One rectangle of size 1 per cell, scaled together; the hidden ones in faint ink, which no weight has."""
    side = "1" if min(cell) < 20 else ".97"
    rows, columns = _cut(grid.rows), _cut(grid.columns)
    shown, hidden = [], []
    colours, values = _colour.rgb(grid.position()), grid.values.tolist()
    most = "at most " if grid.pooled else ""
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            place = f'<rect x="{j}" y="{i}" width="{side}" height="{side}"'
            value = _grid.number(values[i][j])
            said = f"<title>{row} → {column}: {most + value if value else 'hidden'}</title></rect>"
            if value:
                shown.append(f'{place} fill="{_colour.hex_code(colours[i, j])}">{said}')
            else:
                hidden.append(f"{place}>{said}")
    right, bottom = len(columns) * cell[0], len(rows) * cell[1]
    crisp = ' shape-rendering="crispEdges"' if side == "1" else ""
    group = f'<g transform="scale({cell[0]:g} {cell[1]:g})"{crisp}'
    canvas.put(f"{group}>{''.join(shown)}</g>", 0, 0, right, bottom)
    if hidden:
        canvas.put(f'{group} fill-opacity=".13">{"".join(hidden)}</g>', 0, 0, right, bottom)


def _cut(labels: Sequence[Label]) -> list[str]:
    """Names for the titles of cells, escaped: whole up to a length that keeps the picture's size in bounds."""
    names = _labels.shorten([label.rich for label in labels], [label.raw for label in labels], NAMED)
    return [
        html.escape(_placed(name, label, place)) for place, (name, label) in enumerate(zip(names, labels, strict=True))
    ]


def _placed(name: str, label: Label, place: int) -> str:
    """A name with its position, which tells repeated tokens apart; positions without a label are their own name."""
    return name if label.counted else f"{name} [{place}]"


def _figures(canvas: Canvas, grid: Grid, figures: list[list[str]], cell: tuple[float, float]) -> None:
    """The numbers in the cells; they let the pointer through to the titles below."""
    grounds = _colour.rgb(grid.position())
    texts = [
        f'<text x="{(j + 0.5) * cell[0]:g}" y="{(i + 0.5) * cell[1] + 0.35 * 13:g}"'
        f' fill="{_colour.hex_code(_colour.ink(grounds[i, j]))}">{figure}</text>'
        for i, row in enumerate(figures)
        for j, figure in enumerate(row)
        if figure
    ]
    group = f'<g font-size="13" font-family="{SANS}" text-anchor="middle" pointer-events="none">'
    canvas.put(f"{group}{''.join(texts)}</g>", 0, 0, 0, 0)


def _row_labels(canvas: Canvas, grid: Grid, height: float, name: str) -> float:
    """Labels to the left of the rows, and what the rows are; returns how far left that goes."""
    size = max(9.0, min(14.0, 0.7 * height))
    widest = 0.0
    for place, text, full in _ticks(grid.rows, height, 2.6 * size):
        width = canvas.write(-GAP, (place + 0.5) * height, text, size, anchor="end", full=full)
        widest = max(widest, width)
    left = -GAP - widest - 16
    canvas.write(
        left,
        len(grid.rows) * height / 2,
        _labels.line(name, joined=True),
        12,
        anchor="middle",
        turn=90,
        family=SANS,
        faint=True,
    )
    return left - 6


def _column_labels(canvas: Canvas, grid: Grid, width: float, name: str) -> float:
    """Labels above the columns, flat, slanted or upright as there is room; returns how far up that goes."""
    size = max(9.0, min(14.0, 0.7 * width))
    ticks = _ticks(grid.columns, width, (len(str(grid.shape[1])) + 1) * 0.62 * size)
    widest = max(_labels.columns(text) for _, text, _ in ticks) * 0.62 * size
    flat = widest + 6 <= width or grid.columns[0].counted
    turn = 0 if flat else 45 if 0.71 * width >= 1.05 * size else 90
    for place, text, full in ticks:
        x, y = (place + 0.5) * width, -GAP - (size / 2 if flat else 0)
        canvas.write(x, y, text, size, anchor="middle" if flat else "start", turn=turn, full=full)
    top = -GAP - {0: size, 45: 0.71 * (widest + size), 90: widest}[turn] - 16
    canvas.write(
        len(grid.columns) * width / 2,
        top,
        _labels.line(name, joined=True),
        12,
        anchor="middle",
        family=SANS,
        faint=True,
    )
    return top - 6


def _ticks(labels: Sequence[Label], side: float, need: float) -> list[tuple[int, str, str]]:
    """Place, text and full text of the labels to write: all that the caller gave, numbers as far apart as `need`."""
    if not labels[0].counted:
        texts = _labels.shorten([label.rich for label in labels], [label.raw for label in labels], LONGEST)
        return [(place, text, _placed(labels[place].rich, labels[place], place)) for place, text in enumerate(texts)]
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100) if step * side >= need or step == 100)
    return [(place, labels[place].text.split("–")[0], labels[place].rich) for place in range(0, len(labels), step)]


def _legend(canvas: Canvas, grid: Grid, cell: tuple[float, float], left: float) -> None:
    """The colour bar at the right, and below the map what cannot be read from it."""
    right, bottom = grid.values.shape[1] * cell[0], grid.values.shape[0] * cell[1]
    below = bottom
    notes = []
    if grid.low < grid.high:
        height = max(90.0, min(200.0, bottom))
        colours = _colour.rgb(np.linspace(1.0, 0.0, 40))
        steps = "".join(
            f'<rect x="{right + 24:g}" y="{place * height / 40:g}" width="12" height="{height / 40 + 0.3:g}"'
            f' fill="{_colour.hex_code(code)}"/>'
            for place, code in enumerate(colours)
        )
        canvas.put(f'<g class="bar" shape-rendering="crispEdges">{steps}</g>', right, 0, right + 36, height)
        for place in (1.0, 0.5, 0.0):
            canvas.write(right + 42, (1 - place) * height, _grid.number(grid.value_at(place)), 11)
        below = max(bottom, height)
    elif not grid.blank:
        notes.append(f"every shown weight is {_grid.number(grid.low)}")
    if grid.hides:
        notes.append("every weight is hidden" if grid.blank else "grey: hidden")
    if grid.pooled:
        notes.append(grid.pooling())
    for line, note in enumerate(notes):
        canvas.write(left, below + 20 + 17 * line, note, 12, family=SANS, faint=True)
