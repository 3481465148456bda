"""One colour scale for every view, from "little" (ink blue) to "much" (lamp light), and the neutral of hidden cells.

The scale is made of six stops in OKLCh (B. Ottosson, "A perceptual color space for image processing", 2020). Lightness
rises in a straight line, so a step in the weight is the same step to the eye wherever it happens, in print without
colour too; the hue runs blue, violet, rose, amber, which stays ordered under every common kind of colour blindness.
"""

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["HIDDEN", "RGB", "hex_code", "index256", "ink", "oklab", "palette", "rgb"]

Floats = npt.NDArray[np.float64]
RGB = tuple[int, int, int]

# Far from every colour of the scale, which has no grey: a hidden cell never reads as a small or a large weight.
HIDDEN: RGB = (226, 227, 231)
DARK: RGB = (0, 0, 0)
LIGHT: RGB = (255, 255, 255)

# Position, lightness, chroma, hue in degrees (hues go on past 360 so that they can be interpolated).
_STOPS = np.array([
    (0.0, 0.200, 0.060, 275.0),
    (0.2, 0.348, 0.125, 288.0),
    (0.4, 0.496, 0.160, 330.0),
    (0.6, 0.644, 0.165, 382.0),
    (0.8, 0.792, 0.140, 425.0),
    (1.0, 0.940, 0.100, 461.0),
])  # fmt: skip

# xterm's palette along the same path. Nearest colours one by one would flicker between hues; these twelve rise evenly.
_CUBE = (0, 95, 135, 175, 215, 255)
_LADDER = (17, 18, 54, 90, 126, 161, 167, 203, 209, 215, 221, 229)

# Linear sRGB -> cone response -> OKLab, the two matrices of the paper.
_CONES = np.array([
    (0.4122214708, 0.5363325363, 0.0514459929),
    (0.2119034982, 0.6806995451, 0.1073969566),
    (0.0883024619, 0.2817188376, 0.6299787005),
])  # fmt: skip
_LAB = np.array([
    (0.2104542553, 0.7936177850, -0.0040720468),
    (1.9779984951, -2.4285922050, 0.4505937099),
    (0.0259040371, 0.7827717662, -0.8086757660),
])  # fmt: skip


def oklab(colour: npt.ArrayLike) -> Floats:
    """OKLab of 8-bit sRGB colours: (…, 3) -> (…, 3), lightness first, in [0, 1]."""
    lab: Floats = np.cbrt(_linear(colour) @ _CONES.T) @ _LAB.T
    return lab


def rgb(position: npt.ArrayLike) -> npt.NDArray[np.uint8]:
    """Colours of positions on the scale: (…) in [0, 1] -> (…, 3), 8-bit sRGB. NaN takes the neutral of hidden cells."""
    place, shown = _steps(position)
    return np.where(shown[..., None], _scale()[place], np.array(HIDDEN, np.uint8))


def hex_code(colour: Any) -> str:
    """`#rrggbb` of one colour."""
    red, green, blue = (int(part) for part in colour)
    return f"#{red:02x}{green:02x}{blue:02x}"


def index256(position: npt.ArrayLike) -> npt.NDArray[np.uint8]:
    """The same scale in the xterm palette: (…) in [0, 1] -> (…), 16 … 255. NaN takes its light grey."""
    place, shown = _steps(position)
    return np.where(shown, _scale256()[place], np.uint8(254))


def palette(index: int) -> RGB:
    """The colour that xterm gives to an index of its colour cube, 16 … 231, or its greys, 232 … 255."""
    if index >= 232:
        return (8 + 10 * (index - 232),) * 3
    red, green, blue = (_CUBE[(index - 16) // power % 6] for power in (36, 6, 1))
    return red, green, blue


def ink(colour: Any) -> RGB:
    """The colour of text on this background: dark or light, whichever has the larger contrast (WCAG 2.2)."""
    luminance = float(_linear(colour) @ np.array([0.2126, 0.7152, 0.0722]))
    # 0.179 is where contrast with black, (x + 0.05) / 0.05, equals contrast with white, 1.05 / (x + 0.05).
    return DARK if luminance > 0.179 else LIGHT


def _steps(position: npt.ArrayLike) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
    place = np.asarray(position, np.float64)
    shown = ~np.isnan(place)
    return np.rint(np.clip(np.where(shown, place, 0.0), 0.0, 1.0) * 255).astype(np.intp), shown


def _linear(colour: npt.ArrayLike) -> Floats:
    part = np.asarray(colour, np.float64) / 255
    return np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)


@cache
def _scale() -> npt.NDArray[np.uint8]:
    """The 256 colours of the scale: (256, 3)."""
    place = np.linspace(0.0, 1.0, 256)
    light, chroma, hue = (np.interp(place, _STOPS[:, 0], _STOPS[:, column]) for column in (1, 2, 3))
    lab = np.stack([light, chroma * np.cos(np.radians(hue)), chroma * np.sin(np.radians(hue))], axis=-1)
    linear = np.clip((lab @ np.linalg.inv(_LAB).T) ** 3 @ np.linalg.inv(_CONES).T, 0.0, 1.0)
    part = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    scale: npt.NDArray[np.uint8] = np.rint(part * 255).astype(np.uint8)
    scale.setflags(write=False)
    return scale


@cache
def _scale256() -> npt.NDArray[np.uint8]:
    """The rung of the ladder nearest in lightness to each colour of the scale: (256,)."""
    light = oklab([palette(index) for index in _LADDER])[:, 0]
    nearest = np.abs(oklab(_scale())[:, :1] - light).argmin(axis=1)
    scale: npt.NDArray[np.uint8] = np.array(_LADDER, np.uint8)[nearest]
    scale.setflags(write=False)
    return scale
