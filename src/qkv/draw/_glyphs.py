"""Text for pictures, in the one font that Pillow carries itself, which knows little more than ASCII.

A letter with a common accent is put together from two glyphs, `▁` and `∅` are drawn, and every other character that
the font lacks is written as its Python escape: the same picture everywhere, and no box where a token should be.
"""

import math
import unicodedata
from functools import cache
from typing import Any

from qkv.errors import MissingError

__all__ = ["Pen", "pillow", "plain"]

# Accent -> the glyph that draws it, its size beside the letter's, and how: above, flipped above, or below the letter.
_ACCENTS = {
    "\u0300": ("`", 1.0, "above"),
    "\u0301": ("´", 1.0, "above"),
    "\u0302": ("^", 0.6, "above"),
    "\u0303": ("~", 0.7, "above"),
    "\u0304": ("-", 1.0, "above"),
    "\u0307": (".", 1.0, "above"),
    "\u0308": ("..", 0.8, "above"),
    "\u030a": ("°", 0.8, "above"),
    "\u030c": ("^", 0.6, "flipped"),
    "\u0323": (".", 1.0, "below"),
    "\u0327": (",", 0.9, "below"),
}
_DRAWN = {"▁", "∅"}
_PLAIN = str.maketrans({"×": "x", "–": "-", "—": "-", "−": "-", "→": "->", "↓": "v"})


def plain(text: str) -> str:
    """Our own words and titles with ASCII in place of the signs that the font lacks."""
    return text.translate(_PLAIN)


def pillow() -> Any:
    """Pillow, imported when the first picture is asked for."""
    try:
        import PIL.Image
        import PIL.ImageDraw
        import PIL.ImageFont
    except ImportError as error:
        raise MissingError("draw.png needs Pillow: pip install 'qkv[draw]' (draw.svg needs nothing).") from error
    return PIL


class Pen:
    """Writes text of one size, in pixels, as masks: 8-bit images that say how much ink falls where."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._pil = pillow()
        self._font: Any = _font(size)
        self._known: dict[str, bool] = {}
        #: Room above and below the baseline that every mask has.
        self.rise, self.drop = math.ceil(1.2 * size) + 1, math.ceil(0.5 * size)

    @property
    def height(self) -> int:
        """Height of every mask."""
        return self.rise + self.drop

    def spell(self, text: str) -> str:
        """The text in characters that can be drawn: what the font lacks becomes its escape."""
        return "".join(char if self._draws(char) else ascii(char)[1:-1] for char in unicodedata.normalize("NFC", text))

    def width(self, text: str) -> int:
        """Width of spelled text."""
        return math.ceil(sum(float(self._font.getlength(base)) for base, _ in self._units(text)))

    def mask(self, text: str) -> Any:
        """Spelled text as an image of mode L, `height` tall, its baseline `rise` below the top."""
        image = self._pil.Image.new("L", (self.width(text) + 2, self.height))
        across = 0.0
        for base, accent in self._units(text):
            self._write(image, (across, self.rise), base, self._font)
            if accent:
                self._accent(image, across, base, accent)
            across += self._font.getlength(base)
        return image

    def _units(self, text: str) -> list[tuple[str, str]]:
        """Runs that the font writes in one go, and single letters with the accent to put on them."""
        units: list[tuple[str, str]] = []
        for char in text:
            base, accent = self._parts(char)
            if not accent and units and not units[-1][1]:
                units[-1] = (units[-1][0] + base, "")
            else:
                units.append((base, accent))
        return units

    def _parts(self, char: str) -> tuple[str, str]:
        if char in _DRAWN:
            return ("_", "") if char == "▁" else ("O", "/")
        if self._has(char):
            return char, ""
        parts = unicodedata.normalize("NFD", char)
        return parts[0], parts[1]

    def _draws(self, char: str) -> bool:
        if char in _DRAWN or self._has(char):
            return True
        parts = unicodedata.normalize("NFD", char)
        return len(parts) == 2 and self._has(parts[0]) and parts[1] in _ACCENTS

    def _has(self, char: str) -> bool:
        if char not in self._known:
            # U+FFFF is no character, so its glyph is the box of a missing one.
            box, glyph = self._font.getmask("\uffff"), self._font.getmask(char)
            self._known[char] = char == " " or (glyph.size, bytes(glyph)) != (box.size, bytes(box))
        return self._known[char]

    def _accent(self, image: Any, across: float, base: str, accent: str) -> None:
        """Lay an accent over, above or below the letter that was written at `across`."""
        glyph, share, how = _ACCENTS.get(accent, (accent, 1.0, "over"))
        font = _font(max(6, round(share * self.size)))
        letter, box = self._ink(self._font, base), self._ink(font, glyph)
        gap = max(1, round(0.05 * self.size))
        top = {"below": gap, "over": box[1]}.get(how, letter[1] - gap - (box[3] - box[1]))
        layer = self._pil.Image.new("L", image.size)
        left = across + (letter[0] + letter[2] - box[0] - box[2]) / 2
        self._write(layer, (left, self.rise + top - box[1]), glyph, font)
        if how == "flipped":
            part = (0, self.rise + top, image.width, self.rise + top + box[3] - box[1])
            layer.paste(layer.crop(part).transpose(self._pil.Image.Transpose.FLIP_TOP_BOTTOM), part[:2])
        image.paste(255, (0, 0), layer)

    def _write(self, image: Any, at: tuple[float, float], text: str, font: Any) -> None:
        self._pil.ImageDraw.Draw(image).text(at, text, font=font, fill=255, anchor="ls")

    @staticmethod
    def _ink(font: Any, text: str) -> tuple[int, int, int, int]:
        """The box that the ink of a text fills, from its origin on the baseline."""
        left, top, _, _ = font.getbbox(text, anchor="ls")
        inner = font.getmask(text).getbbox() or (0, 0, 0, 0)
        return left + inner[0], top + inner[1], left + inner[2], top + inner[3]


@cache
def _font(size: int) -> Any:
    return pillow().ImageFont.load_default(size)
