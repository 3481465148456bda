"""The essay's parts Why √d_k, Heads and What it costs: what their sliders show is what the library computes."""

from typing import Any

import numpy as np
import pytest
from browsing import bars, figure, grid, number, slide, told

from qkv import cost, experiments, formula, toy

DRAWN = "Random queries, random keys, every width"


def table(part: Any, name: str) -> dict[str, list[str]]:
    rows = part.get_by_role("group", name=name).locator("tbody tr").all()
    return {row.locator("th").inner_text().strip(): row.locator("td").all_inner_texts() for row in rows}


def estimate(text: str) -> tuple[float, float]:
    """A mean and its standard error, from "0.85 ± 0.01"."""
    value, error = text.split("±")
    return number(value), number(error)


def close(text: str, found: experiments.Estimate) -> None:
    """The text is the estimate, rounded to the place of its standard error."""
    value, error = estimate(text)
    assert value == pytest.approx(found.value, abs=0.51 * 10 ** np.floor(np.log10(found.standard_error)) + 1e-9)
    assert error == pytest.approx(found.standard_error, rel=0.5)


@pytest.mark.parametrize(("moved", "n_keys"), [(0, 10), (-6, 4)])
def test_the_experiment_is_the_library_s_draw_by_draw(page: Any, moved: int, n_keys: int) -> None:
    page.goto("/why-scale.html")
    shown = figure(page, DRAWN)
    slide(shown.get_by_role("slider", name="Keys m"), moved)
    slide(shown.get_by_role("slider", name="Marker"), 2)
    shown.get_by_text(f"At d_k = 256, over {n_keys} keys").wait_for()
    (found,) = experiments.saturation([256], n_keys=n_keys, n_draws=1650 // (n_keys + 1))
    charts = shown.locator("[aria-busy=false] > *").all()
    largest, entropy = charts[:2]
    close(told(largest, "raw scores"), found.raw.largest)
    close(told(largest, "divided by √d_k"), found.scaled.largest)
    close(told(entropy, "raw scores"), found.raw.entropy)
    close(told(entropy, "divided by √d_k"), found.scaled.entropy)


def test_wide_raw_scores_make_an_arg_max_and_scaled_ones_stay(page: Any) -> None:
    """The paper's claim, as the figure's two ends show it: 0.49 to 0.97 raw, one level scaled."""
    page.goto("/why-scale.html")
    shown = figure(page, DRAWN)
    ends = []
    for key, width in (("Home", 4), ("End", 1024)):
        shown.get_by_role("slider", name="Marker").press(key)
        shown.get_by_text(f"At d_k = {width}, over 10 keys").wait_for()
        largest = shown.locator("[aria-busy=false] > *").first
        ends.append([estimate(told(largest, line)) for line in ("raw scores", "divided by √d_k")])
    (raw_narrow, scaled_narrow), (raw_wide, scaled_wide) = ends
    assert abs(raw_narrow[0] - 0.49) < 4 * raw_narrow[1]
    assert abs(raw_wide[0] - 0.97) < 4 * raw_wide[1]
    assert abs(scaled_wide[0] - scaled_narrow[0]) < 4 * (scaled_wide[1] + scaled_narrow[1])


@pytest.mark.parametrize("d_k", [64, 16])
def test_the_argument_is_measured_line_by_line(page: Any, d_k: int) -> None:
    page.goto("/why-scale.html")
    shown = figure(page, "Footnote 4, line by line")
    slide(shown.get_by_role("slider", name="Width"), int(np.log2(d_k)) - 6)
    shown.get_by_role("cell", name=str(d_k), exact=True).wait_for()
    rows = shown.locator("tbody tr").all()
    measured = [row.locator("td").all_inner_texts()[2] for row in rows]
    (found,) = experiments.variance([d_k], n_draws=500)
    for text, each in zip(
        [*measured[:3], measured[4]], [found.product_mean, found.product, found.raw, found.scaled], strict=True
    ):
        close(text, each)


def test_the_worked_rows_are_the_paper_s_arithmetic(page: Any) -> None:
    page.goto("/why-scale.html")
    shown = figure(page, "A row before and after the scale")
    for score, name in (([8.0, 0.0], "(8, 0)"), ([16.0, 0.0, 0.0, 0.0], "(16, 0, 0, 0)")):
        shown.get_by_role("button", name=name, exact=True).click()
        raw, scaled = formula.weight(np.array(score)), formula.weight(np.array(score) / 8)
        for part, weight in (("Raw scores", raw), ("Scaled scores", scaled)):
            found = bars(shown.get_by_role("region", name=part), "weight of each key")
            np.testing.assert_allclose(found, weight, rtol=0.005, atol=1e-7)


def test_slices_add_up_to_the_full_width(page: Any) -> None:
    page.goto("/heads.html")
    shown = figure(page, "One width, cut into heads")
    np.testing.assert_allclose(grid(shown, "Full width"), toy.map(1)[0][:], atol=0.0051)
    for head, name in enumerate(toy.names(4)):
        np.testing.assert_allclose(grid(shown, name), toy.map(4)[head][:], atol=0.0051)
    slide(shown.get_by_role("slider", name="Heads"), -1)
    for head, name in enumerate(toy.names(2)):
        np.testing.assert_allclose(grid(shown, name), toy.map(2)[head][:], atol=0.0051)


def test_parameters_are_the_same_for_every_number_of_heads(page: Any) -> None:
    page.goto("/heads.html")
    rows = table(figure(page, "More heads, the same parameters"), "Parameters by the number of heads")
    assert {number(cells[-1]) for cells in rows.values()} == {4 * 512**2}
    for heads, cells in rows.items():
        assert number(cells[1]) == 3 * 512 * 512 / int(heads)


def test_a_wrong_cut_shows_another_picture(page: Any) -> None:
    page.goto("/heads.html")
    shown = figure(page, "Ways to cut")
    wrong = grid(shown, "Head 0")
    shown.get_by_role("radio", name="right").check()
    np.testing.assert_allclose(grid(shown, "Head 0"), toy.map(4)[0][:], atol=0.0051)
    assert np.abs(wrong - toy.map(4)[0][:]).max() > 0.1


@pytest.mark.parametrize("moved", [0, -1, 2])
def test_the_bill_is_the_library_s(page: Any, moved: int) -> None:
    page.goto("/cost.html")
    shown = figure(page, "Projections against pairs")
    slide(shown.get_by_role("slider", name="Tokens n"), moved)
    n = int(number(shown.get_by_role("slider", name="Tokens n").get_attribute("aria-valuetext").split(",")[0]))
    found = cost.layer(768, 12).cost(n).multiply_adds
    projections, pairs = 4 * n * 768**2, found - 4 * n * 768**2
    assert number(told(shown, "Four projections")) == projections
    assert number(told(shown, "Pairs, Q Kᵀ and A V")) == pairs == 2 * n * n * 768
    ratio, of = told(shown, "cost").split(" ", 1)
    expected = projections / pairs
    assert number(ratio) == pytest.approx(expected if of == "times the pairs" else 1 / expected, rel=0.006)


def test_bytes_grow_with_the_square_and_parameters_do_not(page: Any) -> None:
    page.goto("/cost.html")
    shown = figure(page, "From patches to pixels")
    parameters = told(shown, "Parameters of the layer, 4·d²")
    assert number(told(shown, "Tokens n")) == 196
    assert told(shown, "All 12 heads of one layer").split() == ["1.84", "MB"]
    shown.get_by_role("slider", name="Side of a patch").press("End")
    assert number(told(shown, "Tokens n")) == 50_176
    assert number(told(shown, "Weights of one head, n²")) == 50_176**2
    assert told(shown, "Parameters of the layer, 4·d²") == parameters
