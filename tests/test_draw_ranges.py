"""Colours: what decides their range, what order they have, and that a hidden cell is never mistaken for a weight."""

import io
import re
import xml.etree.ElementTree as ET
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image

from qkv import draw
from qkv.draw import colour

SVG = "{http://www.w3.org/2000/svg}"
BACKGROUND = re.compile(r"\x1b\[48;2;(\d+);(\d+);(\d+)m")
# Machado, Oliveira, Fernandes 2009: a colour as a dichromat sees it, on linear sRGB.
DICHROMAT = {
    "protan": [(0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)],
    "deutan": [(0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)],
    "tritan": [(1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)],
}


def fills(picture: str) -> dict[tuple[int, int], str | None]:
    """The colour of each cell of an SVG; None where it is hidden."""
    rects = ET.fromstring(picture.encode()).iter(SVG + "rect")
    cells = [rect for rect in rects if rect.find(SVG + "title") is not None]
    return {(int(rect.get("y", "")), int(rect.get("x", ""))): rect.get("fill") for rect in cells}


def said(picture: str) -> str:
    """All text of an SVG."""
    return "\n".join(ET.fromstring(picture.encode()).itertext())


def colours_of(png: bytes) -> set[tuple[int, int, int]]:
    pixels = np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).reshape(-1, 3)
    return set(map(tuple, np.unique(pixels, axis=0).tolist()))


def at(place: float) -> tuple[int, int, int]:
    red, green, blue = colour.rgb(place).tolist()
    return red, green, blue


# B182: mwaskom/seaborn#1617
HIDES = {
    "visible": (np.array([[0.1, 9e3], [0.3, 0.2]]), np.array([[True, False], [True, True]])),
    "nan": (np.array([[0.1, np.nan], [0.3, 0.2]]), None),
    "minus infinity": (np.array([[0.1, -np.inf], [0.3, 0.2]]), None),
    "hidden nan": (np.array([[0.1, np.nan], [0.3, 0.2]]), np.array([[True, False], [True, True]])),
    "hidden infinity": (np.array([[0.1, np.inf], [0.3, 0.2]]), np.array([[True, False], [True, True]])),
}


@pytest.mark.parametrize("how", HIDES)
def test_hidden_cells_have_no_say_in_the_colours(how: str) -> None:
    weights, visible = HIDES[how]
    cells = fills(draw.svg(weights, visible=visible))
    middle = colour.hex_code(colour.rgb(0.5))
    assert cells == {(0, 0): colour.hex_code(at(0)), (0, 1): None, (1, 0): colour.hex_code(at(1)), (1, 1): middle}
    picture = draw.png(weights, visible=visible, numbers=False)
    assert {at(0), at(0.5), at(1), colour.HIDDEN} <= colours_of(picture)
    line = draw.text(weights, visible=visible, colour="none").split("\n")[-1]
    assert re.match(r"0\.1 │.*│ 0\.3 ", line)
    text = draw.text(weights, visible=visible, numbers=False)
    assert [tuple(map(int, found)) for found in BACKGROUND.findall(text)][:3] == [at(0), at(1), at(0.5)]


@pytest.mark.parametrize("how", HIDES)
def test_hidden_cells_are_said_to_be_hidden(how: str) -> None:
    weights, visible = HIDES[how]
    assert "hidden" in draw.text(weights, visible=visible, colour="none")
    assert "0 → 1: hidden" in said(draw.svg(weights, visible=visible))
    assert "hidden" in draw.html(weights, visible=visible)
    shown = draw.svg(np.array([[0.1, 0.2], [0.3, 0.2]]))
    assert "hidden" not in said(shown)


def test_what_a_hidden_cell_holds_changes_nothing() -> None:
    visible = np.tri(5, dtype=bool)
    weights = np.arange(25.0).reshape(5, 5)
    for junk in (np.nan, np.inf, -np.inf, 1e300):
        other = np.where(visible, weights, junk)
        for view in (draw.text, draw.svg, draw.html, draw.png):
            assert view(other, visible=visible) == view(weights, visible=visible)


@pytest.mark.parametrize("shape", [(5, 1), (1, 5), (1, 1), (5, 5)])
def test_visible_broadcasts_to_the_map(shape: tuple[int, int]) -> None:
    visible = np.random.default_rng(0).random(shape) < 0.6
    whole = np.broadcast_to(visible, (5, 5))
    weights = np.arange(25.0).reshape(5, 5)
    assert draw.svg(weights, visible=visible) == draw.svg(weights, visible=whole)


# B183: mikesvoboda/nemotron-v3-home-security-intelligence#5081
CONSTANT = {
    "quarters": np.full((4, 4), 0.25), "zeros": np.zeros((3, 5)), "ones": np.ones((2, 2)),
    "one cell": np.full((1, 1), 0.7), "negative": np.full((2, 2), -3.0), "large": np.full((2, 3), 1e308),
    "one shown": np.array([[np.nan, 0.5]]),
}  # fmt: skip


@pytest.mark.parametrize("name", CONSTANT)
def test_a_constant_map_is_plain(name: str) -> None:
    weights = CONSTANT[name]
    assert len({fill for fill in fills(draw.svg(weights)).values() if fill}) == 1
    assert len(set(BACKGROUND.findall(draw.text(weights, numbers=False)))) == 1
    value = f"{float(weights[~np.isnan(weights)][0]):.3g}"
    for view in (draw.svg, draw.html, draw.text):
        page = view(weights)
        assert "nan" not in page.lower()
        assert "inf" not in page.lower()
        assert f"every shown weight is {value}" in page
    assert len(colours_of(draw.png(weights, numbers=False))) > 1


@pytest.mark.parametrize("weights", [np.full((2, 3), np.nan), np.full((1, 1), -np.inf), np.full((2, 2), np.nan)])
def test_a_map_with_nothing_to_show_is_drawn_and_says_so(weights: np.ndarray) -> None:
    for view in (draw.svg, draw.html, draw.text):
        assert "hidden" in view(weights)
    assert set(fills(draw.svg(weights)).values()) == {None}
    assert colour.HIDDEN in colours_of(draw.png(weights))


def test_infinity_takes_the_top_colour_and_the_finite_weights_keep_theirs() -> None:
    cells = fills(draw.svg(np.array([[0.0, 0.5, 1.0, np.inf]])))
    assert cells[0, 1] == colour.hex_code(at(0.5))
    assert cells[0, 2] == cells[0, 3] == colour.hex_code(at(1))


@given(hnp.arrays(np.float64, (2, 3), elements=st.floats(width=64)))
@settings(max_examples=80, deadline=None)
def test_any_numbers_at_all_can_be_drawn(weights: np.ndarray) -> None:
    for view in (draw.text, draw.svg, draw.html, draw.png):
        view(weights)
    shown = weights[np.isfinite(weights)]
    cells = fills(draw.svg(weights))
    for (i, j), fill in cells.items():
        assert (fill is None) == bool(np.isnan(weights[i, j]) or np.isneginf(weights[i, j]))
        if shown.size and shown.min() < shown.max() and weights[i, j] == shown.max():
            assert fill == colour.hex_code(at(1))


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=20))
@settings(deadline=None)
def test_a_larger_weight_is_never_darker(values: list[float]) -> None:
    for contrast in ("linear", "root"):
        cells = fills(draw.svg([values], contrast=contrast))
        light = [colour.oklab([int(cells[0, j][k : k + 2], 16) for k in (1, 3, 5)])[0] for j in np.argsort(values)]
        assert (np.diff(light) >= -1e-9).all()


def test_limits_fix_the_colours_of_two_maps_to_each_other() -> None:
    small = fills(draw.svg([[0.0, 0.2]], limits=(0, 1)))
    large = fills(draw.svg([[0.2, 1.0]], limits=(0, 1)))
    assert small[0, 1] == large[0, 0]
    assert fills(draw.svg([[-5.0, 7.0]], limits=(0, 1))) == {
        (0, 0): colour.hex_code(at(0)),
        (0, 1): colour.hex_code(at(1)),
    }


def test_a_sink_leaves_small_weights_apart() -> None:
    weights = np.array([[1.0, 0.2, 0.02, 0.0]])
    cells = fills(draw.svg(weights))
    lab = {j: colour.oklab([int(cells[0, j][k : k + 2], 16) for k in (1, 3, 5)]) for j in range(4)}
    assert np.linalg.norm(lab[1] - lab[2]) > 0.1  # about five just noticeable differences
    steps = [place for place, fill in enumerate(colour.index256(weights[0]).tolist())]
    assert len({colour.index256(weights[0]).tolist()[step] for step in steps}) == 3
    spread = fills(draw.svg(weights, contrast="root"))
    apart = [colour.oklab([int(spread[0, j][k : k + 2], 16) for k in (1, 3, 5)]) for j in range(4)]
    assert np.linalg.norm(apart[2] - apart[3]) > 0.1  # 0.02 and 0 too, under the root


def test_the_colour_bar_carries_the_values_at_its_ends_and_middle() -> None:
    picture = said(draw.svg([[0.1, 0.5]]))
    assert {"0.1", "0.3", "0.5"} <= set(picture.split("\n")) | {line.strip() for line in picture.split("\n")}
    root = draw.svg([[0.0, 1.0]], contrast="root")
    assert ">0.25</text>" in root


def test_the_scale_climbs_in_equal_steps_of_lightness() -> None:
    light = colour.oklab(colour.rgb(np.linspace(0, 1, 101)))[:, 0]
    assert np.abs(np.diff(light) - 0.0074).max() < 0.004  # 8-bit colours cannot be finer
    assert light[0] < 0.21
    assert light[-1] > 0.93


@pytest.mark.parametrize("kind", DICHROMAT)
def test_the_scale_stays_ordered_for_a_dichromat(kind: str) -> None:
    part = colour.rgb(np.linspace(0, 1, 33)) / 255
    linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    seen = np.clip(linear @ np.array(DICHROMAT[kind]).T, 0, 1)
    part = np.where(seen <= 0.0031308, 12.92 * seen, 1.055 * seen ** (1 / 2.4) - 0.055)
    assert (np.diff(colour.oklab(255 * part)[:, 0]) > 0.005).all()


def test_the_palette_of_256_climbs_too() -> None:
    index = colour.index256(np.linspace(0, 1, 256)).tolist()
    light = colour.oklab([colour.palette(each) for each in index])[:, 0]
    assert (np.diff(light) >= 0).all()
    assert len(set(index)) >= 10
    assert np.abs(light - np.linspace(0.2, 0.94, 256)).max() < 0.06


def test_the_neutral_of_hidden_cells_is_far_from_every_colour() -> None:
    apart = colour.oklab(colour.rgb(np.linspace(0, 1, 256))) - colour.oklab(colour.HIDDEN)
    assert np.sqrt((apart**2).sum(-1)).min() > 0.1


@given(st.floats(0, 1))
@settings(deadline=None)
def test_numbers_can_be_read_on_their_cell(place: float) -> None:
    def luminance(rgb: Any) -> float:
        part = np.asarray(rgb) / 255
        return float(
            np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]
        )

    for ground in (colour.rgb(place), colour.palette(int(colour.index256(place)))):
        light, dark = sorted([luminance(ground), luminance(colour.ink(ground))], reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5  # WCAG 2.2, level AA


def test_colours_of_nothing_are_nothing() -> None:
    assert colour.rgb(np.zeros((0, 3))).shape == (0, 3, 3)
    assert colour.rgb(np.nan).tolist() == list(colour.HIDDEN)
