"""A sheet of paper for pictures: what is put on it stays in order, and it is as large as what lies on it."""

import io
import math
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from qkv.draw._glyphs import Pen, pillow
from qkv.draw.colour import RGB

__all__ = ["FAINT", "INK", "Sheet", "pen"]

INK: RGB = (31, 35, 40)
FAINT: RGB = (101, 109, 118)
PAPER: RGB = (255, 255, 255)
pen = cache(Pen)


class Sheet:
    """Images and text at pixels, counted from the upper left, on white with a margin all around."""

    def __init__(self, margin: int) -> None:
        self.margin = margin
        self._pil = pillow()
        # What lies on the sheet: an image in colour, or a mask with the colour of its ink.
        self._parts: list[tuple[int, int, Any, RGB | None]] = []

    def paint(self, x: float, y: float, pixels: npt.NDArray[np.uint8]) -> None:
        """Lay an image, (height, width, 3), with its upper left corner at (x, y)."""
        self._lay(x, y, self._pil.Image.fromarray(pixels), None)

    def write(self, x: float, y: float, text: str, size: int, ink: RGB = INK, *, anchor: str = "left") -> None:
        """Write a line of text whose left, middle or right end lies at x, its middle height at y."""
        mask = pen(size).mask(text)
        back = {"left": 0.0, "middle": mask.width / 2, "right": float(mask.width)}[anchor]
        self._lay(x - back, y - mask.height / 2, mask, ink)

    def write_up(self, x: float, y: float, text: str, size: int, ink: RGB = INK, *, anchor: str = "left") -> None:
        """Write a line of text straight up: the middle of its width at x, its start or middle at y."""
        mask = pen(size).mask(text).transpose(self._pil.Image.Transpose.ROTATE_90)
        back = {"left": float(mask.height), "middle": mask.height / 2}[anchor]
        self._lay(x - mask.width / 2, y - back, mask, ink)

    def write_slanted(self, x: float, y: float, text: str, size: int, ink: RGB = INK) -> None:
        """Write a line of text that starts at (x, y) and climbs by 45 degrees."""
        flat = pen(size).mask(text)
        mask = flat.rotate(45, resample=self._pil.Image.Resampling.BICUBIC, expand=True)
        # The start, half the text's width left of the middle, turns with it.
        reach = flat.width / 2 * math.sqrt(0.5)
        self._lay(x - mask.width / 2 + reach, y - mask.height / 2 - reach, mask, ink)

    def _lay(self, x: float, y: float, image: Any, ink: RGB | None) -> None:
        self._parts.append((round(x), round(y), image, ink))

    def save(self) -> bytes:
        """The sheet as the bytes of a PNG file."""
        left = min((x for x, _, _, _ in self._parts), default=0) - self.margin
        top = min((y for _, y, _, _ in self._parts), default=0) - self.margin
        right = max((x + image.width for x, _, image, _ in self._parts), default=1)
        bottom = max((y + image.height for _, y, image, _ in self._parts), default=1)
        paper = self._pil.Image.new("RGB", (right + self.margin - left, bottom + self.margin - top), PAPER)
        for x, y, image, ink in self._parts:
            if ink is None:
                paper.paste(image, (x - left, y - top))
            else:
                paper.paste(ink, (x - left, y - top), image)
        file = io.BytesIO()
        paper.save(file, "PNG")
        return file.getvalue()
