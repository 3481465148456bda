"""Maps of any length and shape: drawn in moments, bounded in size, pooled by max, and the reader is told."""

import io
import re
import time
import unicodedata
import xml.etree.ElementTree as ET
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from PIL import Image

from qkv import draw
from qkv.draw import _grid, colour

SVG = "{http://www.w3.org/2000/svg}"
OURS = re.compile(r"\x1b\[[0-9;]*m")
MODES = ["truecolor", "256", "none"]
N = 4096


@pytest.fixture(scope="module")
def diagonal() -> np.ndarray:
    """4096 tokens that look at themselves alone, in float32."""
    return np.eye(N, dtype=np.float32)


def cells_of(picture: str) -> dict[tuple[int, int], tuple[str | None, str]]:
    """Fill and title of each cell of an SVG."""
    found = {}
    for rect in ET.fromstring(picture.encode()).iter(SVG + "rect"):
        title = rect.find(SVG + "title")
        if title is not None:
            found[int(rect.get("y", "")), int(rect.get("x", ""))] = (rect.get("fill"), title.text or "")
    return found


def plain(drawn: str) -> str:
    return OURS.sub("", drawn)


def width_of(line: str) -> int:
    kept = [char for char in plain(line) if unicodedata.category(char) not in {"Mn", "Me"}]
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in kept)


# B192: jessevig/bertviz#82
def test_4096_tokens_are_a_small_svg_with_the_diagonal_and_a_note(diagonal: np.ndarray) -> None:
    begun = time.perf_counter()
    picture = draw.svg(diagonal)
    assert time.perf_counter() - begun < 5
    assert len(picture) < 2_000_000
    assert "4096 × 4096 weights, pooled by max: one cell is the largest of up to 43 × 43" in picture
    cells = cells_of(picture)
    assert len(cells) == 96 * 96
    top, bottom = colour.hex_code(colour.rgb(1.0)), colour.hex_code(colour.rgb(0.0))
    assert all(fill == (top if i == j else bottom) for (i, j), (fill, _) in cells.items())
    assert cells[1, 2][1] == "43–85 → 86–128: at most 0"


def test_4096_tokens_are_a_small_page(diagonal: np.ndarray) -> None:
    begun = time.perf_counter()
    page = draw.html(diagonal, page=True)
    assert time.perf_counter() - begun < 5
    assert len(page) < 2_000_000
    assert "pooled by max" in page


@pytest.mark.parametrize("mode", MODES)
def test_4096_tokens_are_a_screen_of_text(diagonal: np.ndarray, mode: Any) -> None:
    begun = time.perf_counter()
    drawn = draw.text(diagonal, colour=mode)
    assert time.perf_counter() - begun < 5
    assert len(drawn) < 200_000
    lines = drawn.split("\n")
    assert len(lines) < 45
    assert "4096 × 4096 weights, pooled by max" in plain(drawn)
    # Every line of the map has its piece of the diagonal, one step further right than the line above.
    if mode == "none":
        bright = [line.split("│")[1].index("█") for line in lines[1:] if line.count("│") == 2 and "░" not in line]
    else:
        red, green, blue = colour.rgb(1.0)
        top = f"2;{red};{green};{blue}" if mode == "truecolor" else "5;229"
        bright = [plain(line.split(f"38;{top}")[0]).count("▀") for line in lines[1:] if "▀" in line]
    assert len(bright) == 37
    assert (np.diff(bright) == 2).all()


def test_4096_tokens_are_a_picture_with_the_diagonal_and_a_note(diagonal: np.ndarray) -> None:
    begun = time.perf_counter()
    file = draw.png(diagonal)
    assert time.perf_counter() - begun < 5
    assert len(file) < 500_000
    pixels = np.asarray(Image.open(io.BytesIO(file)).convert("RGB")).astype(int)
    top = (pixels == colour.rgb(1.0)).all(-1)
    found = {(y, x) for y, x in zip(*np.nonzero(top), strict=True)}
    assert any(all((y + k, x + k) in found for k in range(1024)) for y, x in sorted(found)[:50])
    assert draw.png(diagonal) != draw.png(diagonal[:1024, :1024])


def test_one_bright_weight_survives_the_pooling_in_every_view() -> None:
    weights = np.zeros((2000, 2000))
    weights[1234, 77] = 1.0
    block = -(-2000 // 96)
    cells = cells_of(draw.svg(weights))
    lit = {place for place, (fill, _) in cells.items() if fill == colour.hex_code(colour.rgb(1.0))}
    assert lit == {(1234 // block, 77 // block)}
    assert "█" in draw.text(weights, colour="none").split("\n0 │")[0]
    pixels = np.asarray(Image.open(io.BytesIO(draw.png(weights))).convert("RGB"))
    assert (pixels == colour.rgb(1.0)).all(-1).sum() > 1


@given(
    st.integers(1, 40), st.integers(1, 40), st.integers(1, 9), st.integers(1, 9), st.booleans(), st.integers(0, 2**32)
)
@settings(max_examples=100, deadline=None)
def test_pooling_is_the_largest_shown_weight_of_each_block(
    n_q: int, n_k: int, rows: int, columns: int, tall: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    weights, visible = rng.normal(size=(n_q, n_k)), rng.random((n_q, n_k)) < 0.4
    checked = _grid.check(weights, None, None, visible=visible, limits=None, contrast="linear")
    grid = checked.grid((rows, columns), tall=tall)
    height, width = grid.block
    assert grid.values.shape == (-(-n_q // height), -(-n_k // width))
    assert grid.values.shape[0] <= rows
    assert grid.values.shape[1] <= columns
    for i, row in enumerate(grid.values):
        for j, value in enumerate(row):
            part = (slice(i * height, (i + 1) * height), slice(j * width, (j + 1) * width))
            shown = weights[part][visible[part]]
            assert value == shown.max() if shown.size else np.isnan(value)


@given(st.integers(1, 3000), st.integers(1, 200), st.integers(1, 200))
@settings(deadline=None)
def test_a_square_map_keeps_square_blocks(n: int, rows: int, columns: int) -> None:
    for tall in (False, True):
        height, width = _grid._blocks((n, n), (rows, columns), tall=tall)
        assert height == width * (2 if tall and (height, width) != (1, 1) else 1)


def test_a_map_just_small_enough_is_not_pooled() -> None:
    for view, most in [(draw.svg, 96), (draw.html, 96)]:
        assert "pooled" not in view(np.eye(most))
        assert "pooled" in view(np.eye(most + 1))
    assert "pooled" not in draw.text(np.eye(60))
    assert draw.text(np.eye(60)).count("\n") == 2 + 60


@given(st.integers(1, 130), st.integers(1, 130), st.integers(40, 120), st.integers(1, 70), st.sampled_from(MODES))
@settings(max_examples=60, deadline=None)
def test_text_stays_inside_the_width_and_height_it_was_given(
    n_q: int, n_k: int, width: int, height: int, mode: Any
) -> None:
    weights = np.random.default_rng(n_q * n_k).random((n_q, n_k))
    rows = ["token" * (1 + place % 4) for place in range(n_q)]
    columns = [f"五{place}" for place in range(n_k)]
    for labels in ((None, None), (rows, columns), (rows, None)):
        lines = draw.text(weights, *labels, colour=mode, width=width, height=height).split("\n")
        assert max(map(width_of, lines)) <= width
        body = (
            [line for line in lines if "\x1b[" in line] if mode != "none" else [line for line in lines if "│" in line]
        )
        assert len(body) <= height + 1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("n_q", "n_k"), [(1, 300), (300, 1), (10, 300), (300, 10), (72, 72), (100, 40)])
def test_text_lists_the_labels_it_has_no_room_for_unless_their_axis_is_pooled(n_q: int, n_k: int, mode: Any) -> None:
    rows, columns = [f"row{place}" for place in range(n_q)], [f"col{place}" for place in range(n_k)]
    drawn = plain(draw.text(np.random.default_rng(0).random((n_q, n_k)), rows, columns, colour=mode))
    found = [name for name in (*rows, *columns) if re.search(rf"\b{name}\b", drawn) or name == drawn]
    assert set(found) & set(rows) in (set(), set(rows))
    assert set(found) & set(columns) in (set(), set(columns))
    if n_q <= 64:
        assert set(rows) <= set(found)
    if n_k <= 64:
        assert set(columns) <= set(found)
    assert ("pooled" in drawn) == (set(found) != {*rows, *columns})


@pytest.mark.parametrize("shape", [(1, N), (N, 1), (3, N), (N, 3), (100, 101), (1025, 1)])
def test_ribbons_are_drawn_in_every_view(shape: tuple[int, int]) -> None:
    weights = np.random.default_rng(1).random(shape)
    assert len(draw.svg(weights)) < 200_000 or min(shape) > 3
    assert len(draw.text(weights)) < 200_000
    picture = Image.open(io.BytesIO(draw.png(weights)))
    assert max(picture.size) < 2400
    assert draw.html(weights)


@pytest.mark.parametrize("shape", [(0, 0), (0, 5), (5, 0)])
def test_a_map_without_cells_is_said_to_be_empty(shape: tuple[int, int]) -> None:
    weights, labels = np.zeros(shape), [["x"] * size for size in shape]
    for view in (draw.text, draw.svg, draw.html):
        assert f"{shape[0]} × {shape[1]} map: nothing to draw" in view(weights, *labels, title="t")
    Image.open(io.BytesIO(draw.png(weights, *labels, title="t"))).load()


def test_blocks_are_named_by_their_positions_and_tokens() -> None:
    tokens = [f"tok{place}" for place in range(200)]
    _, title = cells_of(draw.svg(np.eye(200), tokens, tokens))[1, 0]
    assert title == "3–5 (tok3 … tok5) → 0–2 (tok0 … tok2): at most 0"


def test_one_giant_token_does_not_multiply() -> None:
    tokens = ["x" * 100_000 + str(place) for place in range(40)]
    picture = draw.svg(np.eye(40), tokens, tokens)
    assert len(picture) < 2 * sum(map(len, tokens)) + 1_000_000
    assert max(map(width_of, draw.text(np.eye(40), tokens, tokens).split("\n"))) <= 80
