"""The terminal: what is printed can be read back, in every mode, and nothing but the arguments decides it."""

import itertools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from qkv import draw
from qkv.draw import colour

OURS = re.compile(r"\x1b\[[0-9;]*m")
MODES = ["truecolor", "256", "none"]
CAT = "[CLS] the cat sat on the mat because it was tired . [SEP]".split()
LONG = [f"{word}{place}" for place, word in enumerate(["alpha", "be", "gamma", "d", "epsilon"] * 6)]
WEIGHTS = np.random.default_rng(7).dirichlet(np.full(13, 0.3), size=13)

VIEWS: dict[str, Callable[..., str | bytes]] = {
    "text": draw.text, "png": draw.png, "svg": draw.svg, "html": draw.html,
}  # fmt: skip


def plain(drawn: str) -> list[str]:
    return OURS.sub("", drawn).split("\n")


def upright(lines: list[str], first: int, step: int) -> list[str]:
    """The words written downwards above columns `first`, `first + step`, …"""
    deepest = max(map(len, lines))
    stacks = ["".join(line.ljust(deepest)[column] for line in lines) for column in range(first, deepest, step)]
    return [stack.strip() for stack in stacks]


@pytest.mark.parametrize("mode", MODES)
def test_thirteen_tokens_fit_eighty_columns_with_their_numbers(mode: Any) -> None:
    lines = plain(draw.text(WEIGHTS, CAT, CAT, colour=mode))
    body = lines[-14:-1]
    for token, line, row in zip(CAT, body, WEIGHTS, strict=True):
        name, *figures = line.replace("│", " ").split()
        assert name == token
        assert figures == [f"{value:.2f}".removeprefix("0") for value in row if round(value, 2) >= 0.005]


@pytest.mark.parametrize("mode", MODES)
def test_column_labels_read_downwards(mode: Any) -> None:
    lines = plain(draw.text(WEIGHTS, CAT, CAT, colour=mode, numbers=False))
    assert upright(lines[:7], 8, 2) == CAT
    wide = plain(draw.text(WEIGHTS, CAT, CAT, colour=mode))
    assert upright(wide[:7], 8 + 2, 5) == CAT


def test_short_column_labels_stand_upright_on_one_line() -> None:
    first = plain(draw.text(np.eye(4), list("abcd"), ["k1", "k2", "k3", "k4"]))[0]
    assert first.split() == ["k1", "k2", "k3", "k4"]


@pytest.mark.parametrize("mode", MODES)
def test_thirty_tokens_have_two_columns_each_and_all_labels(mode: Any) -> None:
    lines = plain(draw.text(np.eye(30), LONG, LONG, colour=mode))
    names = [re.split(r"[│ ░▒▓█]", line.strip())[0] for line in lines[-31:-1]]
    assert names == LONG
    assert upright(lines[:-31], max(map(len, LONG)) + 1, 2) == LONG


@pytest.mark.parametrize("mode", MODES)
def test_sixty_tokens_have_one_column_each_and_rows_that_name_the_columns(mode: Any) -> None:
    tokens = [f"w{place}" for place in range(60)]
    lines = plain(draw.text(np.eye(60), tokens, tokens, colour=mode))
    side = len("w59 59 ")
    assert upright(lines[:2], side, 1) == [str(place) for place in range(60)]
    for place, line in enumerate(lines[2:62]):
        assert line[: side - 1].split() == [f"w{place}", str(place)]


def test_other_columns_than_rows_are_listed_by_number() -> None:
    keys = [f"k{place}" for place in range(60)]
    drawn = " ".join(plain(draw.text(np.ones((2, 60)), ["a", "b"], keys)))
    assert "keys by number:" in drawn
    assert all(f" {place} k{place} " in drawn for place in range(60))


def test_without_labels_positions_count_from_zero() -> None:
    lines = plain(draw.text(np.eye(3), colour="none"))
    assert lines[0].split() == ["0", "1", "2"]
    assert [line[0] for line in lines[1:4]] == ["0", "1", "2"]


@pytest.mark.parametrize("shape", [(13, 13), (40, 30), (3, 64), (200, 200)])
def test_the_modes_differ_in_colour_only(shape: tuple[int, int]) -> None:
    weights = np.random.default_rng(1).random(shape)
    true, palette = (draw.text(weights, colour=mode) for mode in ("truecolor", "256"))
    assert plain(true) == plain(palette)
    assert "48;5;" not in true
    assert "48;2;" not in palette
    assert "\x1b" not in draw.text(weights, colour="none")


@pytest.mark.parametrize("mode", ["truecolor", "256"])
def test_every_line_ends_without_colour(mode: Any) -> None:
    for line in draw.text(WEIGHTS, CAT, CAT, colour=mode, title="t").split("\n"):
        escapes = OURS.findall(line)
        assert escapes[1::2] == ["\x1b[0m"] * (len(escapes) // 2)
        assert len(escapes) % 2 == 0


def test_each_cell_has_the_colour_of_its_weight() -> None:
    lines = draw.text(WEIGHTS, CAT, CAT, numbers=False).split("\n")[-14:-1]
    place = (WEIGHTS - WEIGHTS.min()) / (WEIGHTS.max() - WEIGHTS.min())
    for i, line in enumerate(lines):
        runs = re.findall(r"\x1b\[48;2;(\d+);(\d+);(\d+)m( +)\x1b", line)
        cells = [tuple(map(int, run[:3])) for run in runs for _ in range(len(run[3]) // 2)]
        assert cells == list(map(tuple, colour.rgb(place[i]).tolist()))


def test_shades_grow_with_the_weight() -> None:
    lines = draw.text([np.linspace(0, 1, 20)], colour="none", numbers=False).split("\n")
    shades = lines[2].split("│")[1]
    assert list(shades) == sorted(shades, key=" ░▒▓█".index)
    assert [shades.count(each) // 2 for each in " ░▒▓█"] == [1, 5, 4, 5, 5]


def test_the_output_has_no_last_newline_and_no_trailing_blanks() -> None:
    drawn = draw.text(WEIGHTS, CAT, CAT, colour="none")
    assert drawn == drawn.strip("\n")
    assert [line for line in drawn.split("\n") if line != line.rstrip()] == []


def test_a_title_keeps_its_lines_and_is_wrapped() -> None:
    lines = plain(draw.text(np.eye(2), title="one\ntwo " + "three " * 30, colour="none"))
    assert lines[0] == "one"
    assert lines[1].startswith("two three")
    assert max(map(len, lines)) <= 80


def test_axes_are_named_as_the_caller_says() -> None:
    assert "layers ↓  heads →" in draw.text(np.eye(2), axes=("layers", "heads"))


@pytest.mark.parametrize("view", VIEWS)
def test_nothing_but_the_arguments_decides_a_picture(view: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = VIEWS[view](WEIGHTS, CAT, CAT, title="t")
    for name, value in [("NO_COLOR", "1"), ("TERM", "dumb"), ("COLUMNS", "20"), ("COLORTERM", ""), ("LANG", "C")]:
        monkeypatch.setenv(name, value)
    assert VIEWS[view](WEIGHTS, CAT, CAT, title="t") == first
    assert VIEWS[view](WEIGHTS.tolist(), tuple(CAT), iter(CAT), title="t") == first
    assert VIEWS[view](WEIGHTS, np.array(CAT), CAT, title="t") == first


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_changes_none_of_its_inputs_and_takes_any_layout(view: str) -> None:
    visible, labels = np.tri(13, dtype=bool), list(CAT)
    wanted = VIEWS[view](np.where(visible, WEIGHTS, np.nan), CAT, CAT)
    wide = np.zeros((26, 39))
    wide[::2, ::3] = WEIGHTS
    for weights in (WEIGHTS.copy(), np.asfortranarray(WEIGHTS), wide[::2, ::3], WEIGHTS[::-1, ::-1].copy()[::-1, ::-1]):
        weights.flags.writeable = False
        before = weights.copy()
        assert VIEWS[view](weights, labels, labels, visible=visible) == wanted
        np.testing.assert_array_equal(weights, before)
        np.testing.assert_array_equal(visible, np.tri(13, dtype=bool))
        assert labels == CAT


def test_views_print_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    for view in VIEWS.values():
        view(WEIGHTS, CAT, CAT)
    draw.bars(WEIGHTS[0], CAT)
    assert capfd.readouterr() == ("", "")


def test_numbers_are_left_out_where_one_does_not_fit_or_on_request() -> None:
    assert ".50" in draw.text([[0.5, 0.25]])
    assert "-19.4" in draw.text([[-19.44, 0.25]])
    assert "123456" not in draw.text([[123456.0, 0.25]])
    assert ".50" not in draw.text([[0.5, 0.25]], numbers=False).replace("0.50", "")
    assert ">.50<" in draw.svg([[0.5, 0.25]])
    assert ">.50<" not in draw.svg([[0.5, 0.25]], numbers=False)
    assert ">.50<" not in draw.svg(np.tile([[0.5, 0.25]], (1, 9)))


@pytest.mark.parametrize(("value", "figure"), [
    (0.004, ""), (0.0051, ".01"), (0.25, ".25"), (0.994, ".99"), (0.996, "1.0"), (1.0, "1.0"), (-0.5, "-.50"),
    (12.34, "12.3"),
])  # fmt: skip
def test_a_number_in_a_cell_has_two_decimals_and_no_leading_zero(value: float, figure: str) -> None:
    row = draw.text([[value, 2.0]], colour="none").split("\n")[1]
    assert row.replace("│", " ").split() == [each for each in ("0", figure, "2.0") if each]


# ---- bars


def test_bars_are_one_line_each_with_label_number_and_length() -> None:
    lines = draw.bars([0.5, 0.25, 0.125], ["cat", "because", "\n"], colour="none").split("\n")
    assert [line.split()[:2] for line in lines] == [["cat", "0.5"], ["because", "0.25"], ["\\n", "0.125"]]
    assert [line.count("█") for line in lines] == [40, 20, 10]
    assert len({line.index("█") for line in lines}) == 1


def test_a_bar_is_a_share_of_the_whole_that_is_asked_for() -> None:
    assert draw.bars([0.5], colour="none", full=1.0).count("█") == 20
    assert draw.bars([5.0], colour="none", full=1.0).count("█") == 40


def test_bars_tell_zero_tiny_negative_and_absent_values_apart() -> None:
    zero, tiny, negative, absent, infinite = draw.bars([0, 1e-9, -1, np.nan, np.inf], colour="none").split("\n")
    assert zero.split() == ["0", "0"]
    assert tiny.split() == ["1", "1e-09", "▏"]
    assert negative.split() == ["2", "-1", "░" * 40]
    assert absent.split() == ["3", "–"]
    assert infinite.split() == ["4", "inf", "█" * 40]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("width", [40, 60, 80])
def test_bars_stay_inside_the_width_whatever_the_labels_hold(mode: Any, width: int) -> None:
    labels = ["五月" * 30, "x" * 100, "", "\x1b[2J"]
    lines = plain(draw.bars([1e-7, 123456.7, -3.3, 0.1], labels, colour=mode, width=width))
    assert max(sum(2 if char in "五月" else 1 for char in line) for line in lines) <= width
    assert len(lines) == 4


def test_no_values_are_no_bars() -> None:
    assert draw.bars([]) == ""
    assert draw.bars([], [], title="t", colour="none") == "t"


def test_longer_bars_are_brighter() -> None:
    codes = re.findall(r"38;2;(\d+);(\d+);(\d+)m", draw.bars([0.9, 0.5, 0.1]))
    light = [colour.oklab(list(map(int, code)))[0] for code in codes]
    assert all(a > b for a, b in itertools.pairwise(light))
