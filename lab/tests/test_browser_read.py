"""The essay: every figure's code runs; the page of one token shows what the library computes."""

from typing import Any

import numpy as np
import pytest
from browsing import SITE, bars, figure, grid, number, printed, slide

from qkv import toy

PAGES = ["three-names", "one-token", "all-at-once", "why-scale", "heads", "cost", "map", "three-roles"]
TITLE = "One query over eight tokens"


@pytest.mark.parametrize("name", PAGES)
def test_the_code_of_every_figure_runs(page: Any, name: str) -> None:
    page.goto(f"/{name}.html")
    page.get_by_role("figure").first.wait_for()
    for each in page.get_by_role("figure").all():
        assert printed(each).strip(), f"the code of {each.inner_text()[:40]!r} prints nothing"


def test_a_row_of_the_map_is_the_library_s(page: Any) -> None:
    page.goto("/one-token.html")
    shown = figure(page, TITLE)
    np.testing.assert_allclose(grid(shown, "Weights of the eight tokens"), toy.map(1)[0][:], atol=0.0051)
    slide(shown.get_by_role("slider", name="Query token"), -2)
    slide(shown.get_by_role("slider", name="Temperature"), -4)
    row = toy.map(1, temperature=0.5)[0, 5]
    np.testing.assert_allclose(bars(shown, "Weights of mat"), row, atol=0.0051)
    assert f"Entropy {toy.map(1, temperature=0.5).entropy()[0, 5]:.3g} nats" in shown.inner_text()


def test_the_pronoun_looks_at_the_cat_and_temperature_decides_how_much(page: Any) -> None:
    page.goto("/one-token.html")
    shown = figure(page, TITLE)
    assert bars(shown, "Weights of it").argmax() == toy.TOKENS.index("cat")
    temperature = shown.get_by_role("slider", name="Temperature")
    temperature.press("Home")
    assert bars(shown, "Weights of it")[1] > 0.99
    temperature.press("End")
    np.testing.assert_allclose(bars(shown, "Weights of it"), 1 / 8, atol=0.02)


def test_a_cell_is_taken_apart_as_the_library_explains_it(page: Any) -> None:
    page.goto("/one-token.html")
    shown = figure(page, TITLE)
    told = shown.get_by_label("The cell it to cat, taken apart").inner_text()
    weight = toy.map(1)[0, 7, 1]
    assert "which animate: 3 · 2 = 6" in told
    assert "q·k = 10" in told
    assert f"{weight:.4g}" in told
    shown.get_by_role("gridcell", name="it to cat").press("ArrowUp")
    assert shown.get_by_label("The cell because to cat, taken apart").is_visible()


def test_a_link_shows_the_same_figure_and_reset_the_first(page: Any) -> None:
    page.goto("/one-token.html")
    slide(figure(page, TITLE).get_by_role("slider", name="Query token"), -6)
    page.wait_for_url("**/one-token.html?one-token.query=1")
    page.reload()
    shown = figure(page, TITLE)
    assert shown.get_by_label("Weights of cat").is_visible()
    shown.get_by_role("button", name="Reset").click()
    assert shown.get_by_label("Weights of it").is_visible()
    page.wait_for_url("**/one-token.html")


@pytest.mark.parametrize("asked", ["query=9", "query=1.5", "query=cat", "tau=0", "tau=-1", "tau=NaN", "tau=", "key=8"])
def test_an_address_that_makes_no_sense_shows_the_first_figure(page: Any, asked: str) -> None:
    page.goto(f"/one-token.html?one-token.{asked}")
    shown = figure(page, TITLE)
    np.testing.assert_allclose(grid(shown, "Weights of the eight tokens"), toy.map(1)[0][:], atol=0.0051)
    assert shown.get_by_label("The cell it to cat, taken apart").is_visible()


def test_the_code_says_what_the_figure_shows(page: Any) -> None:
    page.goto("/one-token.html?one-token.query=3&one-token.tau=0.25")
    said = printed(figure(page, TITLE))
    assert str(toy.map(1, temperature=0.25)[0, 3].round(3)) in said


def test_additive_and_dot_scores_are_measured_side_by_side(page: Any) -> None:
    page.goto("/one-token.html")
    shown = figure(page, "Only the first line changes")
    shown.get_by_role("button", name="Measure it here").click()
    table = shown.get_by_role("table")
    told = {
        row.locator("th").inner_text(): row.locator("td").all_inner_texts() for row in table.locator("tbody tr").all()
    }
    n, d = 128, 64
    assert number(told["dot"][1].removesuffix(" MB")) == pytest.approx(8e-6 * n * n, rel=0.01)
    assert number(told["additive"][1].removesuffix(" MB")) == pytest.approx(8e-6 * n * n * (d + 1), rel=0.01)


def test_the_essay_is_built() -> None:
    assert all((SITE / f"{name}.html").exists() for name in PAGES)
