"""A sheet for vector pictures: what is put on it stays in order, and it is as large as what lies on it."""

import html
import math

from qkv.draw import _labels

__all__ = ["MONO", "SANS", "Canvas"]

MONO = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"
SANS = "system-ui,-apple-system,'Segoe UI',sans-serif"
# The share of the font size that a terminal column of text takes, a little over what these fonts need.
ADVANCE = {MONO: 0.62, SANS: 0.58}


class Canvas:
    """Elements of an SVG image at coordinates of their own, with a margin all around. Text is escaped here."""

    def __init__(self, margin: float) -> None:
        self._margin = margin
        self._parts: list[str] = []
        self._box = (0.0, 0.0, 1.0, 1.0)

    def put(self, element: str, left: float, top: float, right: float, bottom: float) -> None:
        """Put an element that fills this box; whoever writes it has escaped what is in it."""
        self._parts.append(element)
        box = self._box
        self._box = (min(box[0], left), min(box[1], top), max(box[2], right), max(box[3], bottom))

    def write(
        self,
        x: float,
        y: float,
        text: str,
        size: float,
        *,
        anchor: str = "start",
        turn: int = 0,
        family: str = MONO,
        faint: bool = False,
        full: str | None = None,
    ) -> float:
        """Write a line of text, its middle height at y, climbing by `turn` degrees; returns its width.

        `full` is what hovering over it says.
        """
        width = _labels.columns(text) * ADVANCE[family] * size
        start = x - {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor] * width
        turned = f' transform="rotate(-{turn} {number(x)} {number(y)})"' if turn else ""
        self._grow(x, y, start, width, size, turn)
        said = "" if full is None else f"<title>{html.escape(full)}</title>"
        look = "" if family == MONO else f' font-family="{family}"'
        look += ' fill-opacity=".65"' if faint else ""
        # Capitals and figures are some 0.7 of the size tall: their baseline lies half of that below their middle.
        self._parts.append(
            f'<text x="{number(x)}" y="{number(y + 0.35 * size)}" font-size="{number(size)}" text-anchor="{anchor}"'
            f"{look}{turned}>{said}{html.escape(text)}</text>"
        )
        return width

    def _grow(self, x: float, y: float, start: float, width: float, size: float, turn: int) -> None:
        """Make room for a line of text between `start` and `start + width`, turned about (x, y)."""
        cos, sin = math.cos(math.radians(turn)), math.sin(math.radians(turn))
        across = [x + (end - x) * cos + side * sin for end in (start, start + width) for side in (-size / 2, size / 2)]
        down = [y - (end - x) * sin + side * cos for end in (start, start + width) for side in (-size / 2, size / 2)]
        self.put("", min(across), min(down), max(across), max(down))

    def element(self, label: str, style: str) -> str:
        """The whole `<svg>` element; `label` is what a screen reader says in its place."""
        left, top, right, bottom = self._box
        width, height = right - left + 2 * self._margin, bottom - top + 2 * self._margin
        frame = " ".join(map(number, (left - self._margin, top - self._margin, width, height)))
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="qkv-map" role="img" aria-label="{html.escape(label)}"'
            f' viewBox="{frame}" width="{number(width)}" height="{number(height)}" fill="currentColor"'
            f' font-family="{MONO}"'
            f' style="max-width:100%;height:auto">{style}{"".join(self._parts)}</svg>'
        )


def number(value: float) -> str:
    """A coordinate, to a tenth."""
    return f"{round(value, 1) + 0.0:g}"
