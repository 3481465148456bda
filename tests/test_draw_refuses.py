"""What cannot be drawn is refused in one line that names the sizes and the way out, by every view alike."""

import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from qkv import draw
from qkv.errors import ArgumentError, DTypeError, MissingError, ShapeError

VIEWS: dict[str, Callable[..., str | bytes]] = {
    "text": draw.text, "png": draw.png, "svg": draw.svg, "html": draw.html,
}  # fmt: skip
views = pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)


def refusal(error: type[Exception], call: Callable[[], Any]) -> str:
    """The message of an error, which must be one line."""
    with pytest.raises(error) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")
    return message


# B189: jessevig/bertviz#80
@views
@pytest.mark.parametrize(("size", "tokens"), [(8, 6), (6, 8), (1, 0), (2, 1), (1024, 976)])
def test_labels_that_do_not_fit_are_counted(view: Callable[..., Any], size: int, tokens: int) -> None:
    labels = [f"t{place}" for place in range(tokens)]
    weights = np.full((size, size), 1 / size)
    positions, words = "positions" if size > 1 else "position", "token" if tokens == 1 else "tokens"
    for given in ({"rows": labels}, {"columns": labels}, {"rows": labels, "columns": labels}):
        message = refusal(ShapeError, lambda given=given: view(weights, **given))
        assert f"{size} {positions} and {tokens} {words}" in message
        assert f"weights.shape = ({size}, {size})" in message
        assert next(iter(given)) in message
        assert issubclass(ShapeError, ValueError)


@views
def test_the_way_out_of_a_misfit_works(view: Callable[..., Any]) -> None:
    weights, few, many = np.full((8, 8), 1 / 8), list("abcdef"), list("abcdefghij")
    message = refusal(ShapeError, lambda: view(weights, few))
    assert "weights[:6]" in message
    assert view(weights[:6], few)
    message = refusal(ShapeError, lambda: view(weights, None, few))
    assert "weights[:, :6]" in message
    assert view(weights[:, :6], None, few)
    message = refusal(ShapeError, lambda: view(weights, many))
    assert "rows[:8]" in message
    assert view(weights, many[:8])


# B190: jessevig/bertviz#101
@views
@pytest.mark.parametrize(("batch", "words", "pick"), [
    ((5, 2), "the batch has 5 items with 2 heads each", "weights[0, 0]"),
    ((16, 12), "the batch has 16 items with 12 heads each", "weights[0, 0]"),
    ((5,), "batch that has 5 items or heads", "weights[0]"),
    ((1,), "batch that has 1 items or heads", "weights[0]"),
    ((2, 3, 4), "the batch has 24 items (2 × 3 × 4)", "weights[0, 0, 0]"),
])  # fmt: skip
def test_a_batch_says_how_many_maps_it_has_and_how_to_pick_one(
    view: Callable[..., Any], batch: tuple[int, ...], words: str, pick: str
) -> None:
    weights = np.full((*batch, 4, 4), 0.25)
    for labels in (list("abcd"), list("abcdefghijkl"), None):
        message = refusal(ShapeError, lambda labels=labels: view(weights, labels, labels))
        assert words in message
        assert pick in message
        assert f"weights.shape = {weights.shape}" in message
    assert view(weights[(0,) * len(batch)], list("abcd"), list("abcd"))


@views
@pytest.mark.parametrize("shape", [(), (7,)])
def test_too_few_axes_are_refused(view: Callable[..., Any], shape: tuple[int, ...]) -> None:
    message = refusal(ShapeError, lambda: view(np.zeros(shape)))
    assert f"weights.shape = {shape}" in message
    assert "weights[None, :]" in message


@views
@pytest.mark.parametrize("weights", [
    np.zeros((2, 2), complex), np.array([["a", "b"]]), np.array([[None, 1.0]]), np.zeros((2, 2), "M8[s]"),
], ids=["complex", "str", "object", "time"])  # fmt: skip
def test_what_is_no_real_number_is_refused(view: Callable[..., Any], weights: np.ndarray) -> None:
    assert str(weights.dtype) in refusal(DTypeError, lambda: view(weights))


@views
def test_ragged_rows_are_refused(view: Callable[..., Any]) -> None:
    assert "differ in length" in refusal(ShapeError, lambda: view([[1.0, 2.0], [3.0]]))


@views
def test_one_string_is_not_a_list_of_labels(view: Callable[..., Any]) -> None:
    for wrong in ("ab", b"ab", 2):
        assert type(wrong).__name__ in refusal(DTypeError, lambda wrong=wrong: view(np.eye(2), wrong))


@views
def test_visible_must_be_bool_and_fit(view: Callable[..., Any]) -> None:
    assert "int64" in refusal(DTypeError, lambda: view(np.eye(2), visible=np.ones((2, 2), np.int64)))
    message = refusal(ShapeError, lambda: view(np.eye(2), visible=np.ones((3, 2), bool)))
    assert "(3, 2)" in message
    assert "(2, 2)" in message


@views
@pytest.mark.parametrize("limits", [(1, 0), (0, 0), (0, np.nan), (-np.inf, 1), (0, 1, 2), 1, ("a", "b")])
def test_limits_must_be_two_rising_numbers(view: Callable[..., Any], limits: Any) -> None:
    assert "limits" in refusal(ArgumentError, lambda: view(np.eye(2), limits=limits))


@views
def test_an_unknown_contrast_is_refused_with_the_known_ones(view: Callable[..., Any]) -> None:
    message = refusal(ArgumentError, lambda: view(np.eye(2), contrast="log"))
    assert re.search(r'"linear".*"root".*log', message)


@pytest.mark.parametrize("call", [draw.text, draw.bars], ids=["text", "bars"])
def test_the_terminal_knows_three_modes_and_a_least_width(call: Callable[..., Any]) -> None:
    data = np.eye(2) if call is draw.text else np.ones(2)
    assert '"truecolor", "256" or "none"' in refusal(ArgumentError, lambda: call(data, colour="ansi"))
    assert "40" in refusal(ArgumentError, lambda: call(data, width=39))
    assert call(data, width=40)


def test_a_terminal_without_rows_is_refused() -> None:
    assert "height" in refusal(ArgumentError, lambda: draw.text(np.eye(2), height=0))


def test_bars_refuse_what_is_no_list_of_numbers() -> None:
    assert "(2, 2)" in refusal(ShapeError, lambda: draw.bars(np.eye(2)))
    assert "complex" in refusal(DTypeError, lambda: draw.bars(np.zeros(2, complex)))
    message = refusal(ShapeError, lambda: draw.bars([0.1, 0.2], ["a"]))
    assert "2 positions and 1 token" in message
    assert "values[:1]" in message
    for full in (0, -1, np.nan, np.inf):
        assert "full" in refusal(ArgumentError, lambda full=full: draw.bars([0.1], full=full))


def test_a_png_without_pillow_names_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PIL", "PIL.Image", "PIL.ImageDraw", "PIL.ImageFont"):
        monkeypatch.setitem(sys.modules, name, None)
    message = refusal(MissingError, lambda: draw.png(np.eye(2)))
    assert "pip install 'qkv[draw]'" in message
    assert draw.svg(np.eye(2))


def test_importing_draw_pulls_in_numpy_only() -> None:
    code = (
        "import sys; from qkv import draw; draw.svg([[1.0]]); draw.text([[1.0]]); draw.html([[1.0]]); draw.bars([1.0]);"
        "print([name for name in sys.modules if name.split('.')[0] in ('PIL', 'torch', 'rich')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@views
@pytest.mark.parametrize(
    "dtype", [np.float16, np.float32, np.float64, np.longdouble, ml_dtypes.bfloat16, np.int8, np.uint64, bool]
)
def test_every_real_dtype_is_drawn_alike(view: Callable[..., Any], dtype: Any) -> None:
    weights = np.array([[0, 1, 1], [1, 0, 0]])
    assert view(weights.astype(dtype)) == view(weights.astype(float))
