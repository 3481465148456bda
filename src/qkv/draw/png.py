"""A map as a PNG heat map with labels, a colour bar with numbers, and what was pooled written into the picture."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from qkv.draw import _grid, _labels, colour as _colour
from qkv.draw._glyphs import pillow, plain
from qkv.draw._grid import Contrast, Grid, Labels, Limits
from qkv.draw._labels import Label
from qkv.draw._sheet import FAINT, INK, Sheet, pen

__all__ = ["png"]

MARGIN, GAP = 28, 10
# Weights drawn one by one at most, per side, and labels written at most: past 128 they would be under 11 pixels.
MOST, LABELLED = 1024, 128
# Columns that a label takes at most, and a line of a title.
LONGEST, LINE = 28, 72


def png(
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
) -> bytes:
    """A map as the bytes of a PNG file: weights (n_q, n_k), n_q row labels, n_k column labels. Needs Pillow.

    Up to 128 positions a side every label is written; past that the positions are numbered; past 1024 the map is
    pooled by max, and the picture says so. Numbers stand in the cells of at most 16 rows and columns. `visible`,
    `axes`, `limits`, `contrast` and hidden weights are as in `text`. The font is the one inside Pillow, which knows
    ASCII: common accents are added to it, and any other character is written as its escape (`svg` and `html` keep
    them all). Raises ShapeError, DTypeError, ArgumentError, and MissingError without Pillow.
    """
    pillow()
    checked = _grid.check(weights, rows, columns, visible=visible, limits=limits, contrast=contrast)
    sheet = Sheet(MARGIN)
    if 0 in checked.shape:
        sheet.write(0, 0, plain(_grid.nothing(checked.shape)), 20)
        _heading(sheet, title, subtitle, 0, -20)
        return sheet.save()
    grid = checked.grid((MOST, MOST))
    figures = grid.figures() if numbers and max(checked.shape) <= 16 else None
    cell = _cell(grid, numbered=figures is not None)
    sheet.paint(0, 0, _pixels(grid, cell))
    if figures:
        _write_figures(sheet, grid, figures, cell)
    left = _row_labels(sheet, grid, cell[1], axes[0])
    top = _column_labels(sheet, grid, cell[0], axes[1])
    _legend(sheet, grid, cell, left)
    _heading(sheet, title, subtitle, left, top)
    return sheet.save()


def _cell(grid: Grid, *, numbered: bool) -> tuple[int, int]:
    """Width and height of a cell in pixels: one size for both where that does not make a ribbon of the map."""
    if numbered:
        return 58, 58
    height, width = (
        max(14, min(40, 1400 // count)) if count <= LABELLED else max(1, MOST // count) for count in grid.values.shape
    )
    both = min(width, height)
    return (both, both) if max(width, height) <= 4 * both else (width, height)


def _pixels(grid: Grid, cell: tuple[int, int]) -> npt.NDArray[np.uint8]:
    """The cells as an image, (height, width, 3): a white line between large cells, a dot in large hidden ones."""
    width, height = cell
    pixels = np.repeat(np.repeat(_colour.rgb(grid.position()), height, axis=0), width, axis=1)
    if min(cell) >= 12:
        hidden = np.isnan(grid.values)
        reach = range(-(min(cell) // 28), min(cell) // 28 + 1)
        for down in reach:
            for across in reach:
                pixels[height // 2 + down :: height, width // 2 + across :: width][hidden] = (150, 153, 160)
    if min(cell) >= 30:
        pixels[height - 1 :: height] = pixels[:, width - 1 :: width] = 255
    return pixels


def _write_figures(sheet: Sheet, grid: Grid, figures: list[list[str]], cell: tuple[int, int]) -> None:
    grounds = _colour.rgb(grid.position())
    for i, row in enumerate(figures):
        for j, figure in enumerate(row):
            at = ((j + 0.5) * cell[0], (i + 0.5) * cell[1])
            sheet.write(*at, figure, 18, _colour.ink(grounds[i, j]), anchor="middle")


def _row_labels(sheet: Sheet, grid: Grid, height: int, name: str) -> int:
    """Labels to the left of the rows, and what the rows are; returns how far left that goes."""
    size = max(11, min(20, round(0.6 * height)))
    texts = _spelled(grid.rows, size)
    step = _step(len(texts), height, 2.6 * size)
    for place in range(0, len(texts), step):
        sheet.write(-GAP, (place + 0.5) * height, texts[place], size, anchor="right")
    reach = GAP + max(pen(size).width(text) for text in texts[::step])
    sheet.write_up(-reach - 20, len(texts) * height / 2, _said(name), 17, FAINT, anchor="middle")
    return -reach - 32


def _column_labels(sheet: Sheet, grid: Grid, width: int, name: str) -> int:
    """Labels above the columns, flat, slanted or upright as there is room; returns how far up that goes."""
    size = max(11, min(20, round(0.6 * width)))
    texts = _spelled(grid.columns, size)
    widest = max(pen(size).width(text) for text in texts)
    if widest + 6 <= width or len(texts) > LABELLED:
        step = _step(len(texts), width, widest + 12)
        for place in range(0, len(texts), step):
            sheet.write((place + 0.5) * width, -GAP - size / 2, texts[place], size, anchor="middle")
        reach = GAP + size
    elif width * 0.7 >= size * 0.95:
        for place, text in enumerate(texts):
            sheet.write_slanted((place + 0.5) * width - size * 0.2, -GAP, text, size)
        reach = GAP + round(0.71 * widest + size)
    else:
        for place, text in enumerate(texts):
            sheet.write_up((place + 0.5) * width, -GAP, text, size)
        reach = GAP + widest
    sheet.write(len(texts) * width / 2, -reach - 20, _said(name), 17, FAINT, anchor="middle")
    return -reach - 32


def _spelled(labels: Sequence[Label], size: int) -> list[str]:
    """Labels in characters that the font has, shortened: numbers alone once there are too many."""
    if len(labels) > LABELLED:
        return [label.text.split("–")[0] if label.text == label.raw else "" for label in labels]
    texts = [pen(size).spell(label.text) for label in labels]
    return _labels.shorten(texts, [label.raw for label in labels], LONGEST)


def _step(count: int, pixels: int, need: float) -> int:
    """Every how manieth of `count` cells of this many pixels can carry a label that needs `need`: 1, 2, 5, 10, …"""
    step, factors = 1, [2, 2.5, 2]
    while step * pixels < need and step < count and (count > LABELLED):
        step = round(step * factors[0])
        factors = [*factors[1:], factors[0]]
    return step


def _legend(sheet: Sheet, grid: Grid, cell: tuple[int, int], left: int) -> None:
    """The colour bar at the right, and below the map what cannot be read from it."""
    right, bottom = grid.values.shape[1] * cell[0], grid.values.shape[0] * cell[1]
    below = bottom
    if grid.low < grid.high:
        height = max(120, min(260, bottom))
        ramp = _colour.rgb(np.linspace(1.0, 0.0, height))
        sheet.paint(right + 32, 0, np.repeat(ramp[:, None], 18, axis=1))
        for place in (1.0, 0.5, 0.0):
            sheet.write(right + 58, (1 - place) * height, _grid.number(grid.value_at(place)), 15)
        below = max(bottom, height)
    notes = [] if grid.low < grid.high or grid.blank else [f"every shown weight is {_grid.number(grid.low)}"]
    if grid.hides:
        notes.append("every weight is hidden" if grid.blank else "grey: hidden")
    if grid.pooled:
        notes.append(grid.pooling())
    for line, note in enumerate(notes):
        sheet.write(left + 6, below + 26 + 22 * line, plain(note), 15, FAINT)


def _heading(sheet: Sheet, title: str | None, subtitle: str | None, left: int, top: int) -> None:
    """Title and subtitle above everything else, the last line first."""
    lines = [(line, 26, INK, 36) for line in _labels.wrap(title, LINE)]
    lines += [(line, 17, FAINT, 26) for line in _labels.wrap(subtitle, LINE)]
    up = top - 22.0
    for line, size, ink, height in reversed(lines):
        sheet.write(left + 6, up - height / 2, pen(size).spell(plain(line)), size, ink)
        up -= height


def _said(name: str) -> str:
    return pen(17).spell(plain(_labels.line(name)))
