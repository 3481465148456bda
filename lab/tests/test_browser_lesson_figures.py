"""The figures of the lessons show what the library computes, and their Python lines print it."""

from typing import Any

import numpy as np
import pytest
from browsing import bars, figure, floats, grid, number, numbers, printed, slide

import qkv
from qkv import formula


def test_projections_begin_at_1_2_and_follow_their_sliders(page: Any) -> None:
    page.goto("/lesson-queries-keys-values.html")
    shown = figure(page, "One vector, three projections")
    results = shown.locator("tbody output")
    assert results.all_inner_texts() == ["[3, 2]", "[2, 1]", "[2, 4]"]
    slide(shown.get_by_role("slider", name="x[0]"), -5)
    slide(shown.get_by_role("slider", name="x[1]"), 3)
    x = np.array([[-1.5, 3.5]])
    want = [x @ w for w in ([[1, 0], [1, 1]], [[0, 1], [1, 0]], [[2, 0], [0, 2]])]
    for text, row in zip(results.all_inner_texts(), want, strict=True):
        assert [number(each) for each in text.strip("[]").split(", ")] == row[0].tolist()
    assert printed(shown).splitlines() == [f"{n} {r[0]}" for n, r in zip(("query", "key", "value"), want, strict=True)]


def test_the_scale_keeps_the_weights_where_raw_scores_collapse(page: Any) -> None:
    page.goto("/lesson-scores-and-scale.html")
    shown = figure(page, "Six keys, with and without the scale")
    slide(shown.get_by_role("slider", name="width"), 2)
    shown.get_by_role("button", name="Draw others").click()
    rng = np.random.default_rng([1])
    q, k = rng.standard_normal((1, 256)), rng.standard_normal((6, 256))
    raw = formula.weight(formula.dot_score(q, k))[0]
    scaled = formula.weight(formula.score(q, k))[0]
    np.testing.assert_allclose(bars(shown, "Weights, without the scale"), raw, atol=0.0051)
    np.testing.assert_allclose(bars(shown, "Weights, with the scale"), scaled, atol=0.0051)
    np.testing.assert_allclose(floats(printed(shown)), np.concatenate([raw, scaled]), atol=0.0051)


def test_hidden_keys_take_nothing_and_an_empty_row_is_zeros(page: Any) -> None:
    page.goto("/lesson-softmax-and-masks.html")
    shown = figure(page, "Four scores become shares")
    score, visible = np.array([[2.0, 0, 5, -1]]), np.ones((1, 4), bool)
    for hidden in (2, 0, 3, 1):
        shown.get_by_role("checkbox").nth(hidden).uncheck()
        visible[0, hidden] = False
        weight = formula.weight(formula.hide(score, visible))[0]
        np.testing.assert_allclose(bars(shown, "Weights"), weight, atol=0.0051)
        total = number(shown.locator("tfoot .weight").inner_text())
        assert total == pytest.approx(weight.sum(), abs=0.0051)
        np.testing.assert_allclose(floats(printed(shown).splitlines()[0]), weight, atol=1e-4)
        late = number(shown.locator("tfoot .late").inner_text())
        assert late == pytest.approx((formula.weight(score)[0] * visible).sum(), abs=0.0051)
    assert "an empty row" in shown.inner_text()


def test_one_number_added_to_every_score_changes_no_weight(page: Any) -> None:
    page.goto("/lesson-softmax-and-masks.html")
    shown = figure(page, "Four scores become shares")
    before = bars(shown, "Weights")
    shown.get_by_role("slider", name="added to every score").press("End")
    assert "1002" in shown.locator("tbody").inner_text()
    np.testing.assert_array_equal(bars(shown, "Weights"), before)


def test_contributions_add_up_to_the_output(page: Any) -> None:
    page.goto("/lesson-weighted-output.html")
    shown = figure(page, "Contributions, one behind the other")
    slide(shown.get_by_role("slider", name="direction"), 9)
    angle = np.radians(75)
    q = 2 * np.array([[np.cos(angle), np.sin(angle)]])
    k = np.array([[2, 0], [0, 2], [-2, 0], [0, -2.0]])
    v = np.array([[3, 1], [1, 3], [-3, 1], [0.5, -0.5]])
    weight = formula.weight(formula.score(q, k))
    cells = [row.locator("td").all_inner_texts() for row in shown.locator("tbody tr").all()]
    np.testing.assert_allclose(numbers([row[2] for row in cells]), weight[0], atol=0.0051)
    parts = np.array([numbers(row[4].strip("[]").split(", ")) for row in cells])
    np.testing.assert_allclose(parts, weight.T * v, atol=0.0051)
    output = numbers(shown.locator("tfoot output").inner_text().strip("[]").split(", "))
    np.testing.assert_allclose(output, (weight @ v)[0], atol=0.0051)
    np.testing.assert_allclose(floats(printed(shown))[-2:], (weight @ v)[0], atol=0.0051)


@pytest.mark.parametrize(
    ("way", "heads"),
    [
        ("reshape and transpose", lambda x: x.reshape(4, 3, 2).transpose(1, 0, 2)),
        ("reshape alone", lambda x: x.reshape(3, 4, 2)),
        ("every h-th channel", lambda x: x.reshape(4, 2, 3).transpose(2, 0, 1)),
        ("no transpose", lambda x: x.reshape(4, 3, 2)),
    ],
)
def test_each_way_to_split_shows_where_numbers_go(page: Any, way: str, heads: Any) -> None:
    page.goto("/lesson-heads.html")
    shown = figure(page, "Where each number ends up")
    shown.get_by_role("radio", name="3", exact=True).check()
    shown.get_by_role("radio", name=way).check()
    x = np.array([[10 * token + channel for channel in range(6)] for token in range(4)])
    want = heads(x)
    tables = shown.get_by_role("table").all()[1:]
    got = [[int(cell.replace("·", "")) for cell in table.locator("td").all_inner_texts()] for table in tables]
    assert got == want.reshape(len(want), -1).tolist()
    right = np.array_equal(want, formula.split(x, 3))
    assert ("This is the split" in shown.inner_text()) is right
    assert printed(shown).splitlines()[-1] == f"as it should be: {right}"


def test_the_staircase_ends_at_the_last_key(page: Any) -> None:
    page.goto("/lesson-causal-cross-cost.html")
    shown = figure(page, "Who sees whom")

    def held(n_q: int, n_k: int) -> None:
        weight = qkv.attend(np.zeros((n_q, 4)), np.zeros((n_k, 4)), causal=True).dense()
        cells = grid(shown, "Shares when every score is the same")
        np.testing.assert_allclose(np.nan_to_num(cells), weight, atol=0.0051)
        assert np.isnan(cells).sum() == n_q * n_k - np.count_nonzero(weight)
        assert f"visible pairs {np.count_nonzero(weight)} of {n_q * n_k}" in printed(shown)

    held(3, 5)
    slide(shown.get_by_role("slider", name="queries"), 4)
    held(7, 5)
    assert "sees nothing: an empty row" in shown.inner_text()
    shown.get_by_role("radio", name="cross").check()
    assert "visible pairs 35 of 35" in printed(shown)
