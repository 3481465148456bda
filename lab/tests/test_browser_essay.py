"""The essay's parts Three names, All at once, The map as a picture and Three roles show what the library computes."""

from typing import Any

import numpy as np
from browsing import code, figure, grid, missing, number, numbers, printed, slide, told

from qkv import formula, toy
from qkv.errors import MissingError
from qkv_lab import maps

# ---- Three names ---------------------------------------------------------------------------------------------


def lookup(angle: float, length: float) -> tuple[np.ndarray, float]:
    """The weights of four winds and their blend, in °C."""
    at = np.radians([0, 90, 180, 270, angle])
    vectors = np.stack([np.cos(at), np.sin(at)], axis=-1)
    weight = formula.weight(formula.score(length * vectors[4:], vectors[:4]))[0]
    return weight, float(weight @ [12, 4, 9, 21])


def test_the_soft_dictionary_blends_and_the_hard_one_knows_or_fails(page: Any) -> None:
    page.goto("/three-names.html")
    shown = figure(page, "A dictionary, hard and soft")

    def knows(angle: float, length: float, hard: str) -> None:
        weight, blend = lookup(angle, length)
        cells = shown.locator("tbody tr td:last-child").all_inner_texts()
        np.testing.assert_allclose(numbers(cells), weight, atol=0.0051)
        assert shown.locator(".result", has_text="Hard").locator("strong").inner_text() == hard
        assert f"{blend:.2f} °C" in shown.inner_text()
        assert f"{blend:.4f}"[:5] in printed(shown)

    knows(60, 3, "KeyError: 60")
    slide(shown.get_by_role("slider", name="Direction"), 6)
    slide(shown.get_by_role("slider", name="Length"), 4)
    knows(90, 5, "4 °C")


def test_a_changed_number_changes_the_view_of_its_matrix_alone(page: Any) -> None:
    page.goto("/three-names.html")
    shown = figure(page, "One token, three views")

    def view(name: str) -> np.ndarray:
        return numbers(shown.get_by_role("table", name=name, exact=True).locator("td").all_inner_texts())

    before = view("k"), view("v")
    shown.get_by_label("W_Q[0, 1]").fill("-2")
    shown.get_by_label("W_Q[1, 1]").press("ArrowUp")
    np.testing.assert_allclose(view("q"), np.array([2, 1]) @ [[1, -2], [-0.5, 1.1]])
    np.testing.assert_array_equal((view("k"), view("v")), before)
    shown.get_by_label("One matrix for both").check()
    np.testing.assert_array_equal(view("k"), view("q"))
    assert "k = [[ 1.5 -2.9]]" in printed(shown)


def test_a_number_of_a_matrix_is_dragged_sideways(page: Any) -> None:
    page.goto("/three-names.html")
    field = figure(page, "One token, three views").get_by_label("x[0]")
    field.scroll_into_view_if_needed()
    box = field.bounding_box()
    page.mouse.move(box["x"] + 20, box["y"] + 10)
    page.mouse.down()
    page.mouse.move(box["x"] + 50, box["y"] + 10, steps=4)
    page.mouse.up()
    assert field.input_value() == "2.5"


def test_one_matrix_for_queries_and_keys_makes_the_scores_symmetric(page: Any) -> None:
    page.goto("/three-names.html")
    shown = figure(page, "Two matrices or one")
    layer, x = toy.layer(1), toy.x()
    for w_k in (layer.w_k, layer.w_q):
        score = formula.score(x @ layer.w_q, x @ w_k)
        np.testing.assert_allclose(grid(shown, "Score of each query"), score, atol=0.005)
        assert number(told(shown, "Largest difference")) == np.abs(score - score.T).max()
        shown.get_by_label("One matrix for both").check()
    assert told(shown, "none better than themselves") == "8 of 8"


# ---- All at once ---------------------------------------------------------------------------------------------


def test_shapes_and_counts_follow_the_sliders(page: Any) -> None:
    page.goto("/all-at-once.html")
    shown = figure(page, "The shapes, drawn to scale")
    slide(shown.get_by_role("slider", name="n, queries"), 2)
    slide(shown.get_by_role("slider", name="d_k"), -1)
    for name, rows, columns in (("Q", 7, 3), ("Kᵀ", 3, 8), ("S", 7, 8), ("A", 7, 8), ("V", 8, 6), ("output", 7, 6)):
        drawn = shown.get_by_role("img", name=f"{name}: {rows} rows, {columns} columns", exact=True)
        box = drawn.locator(".cells").bounding_box()
        np.testing.assert_allclose((box["width"] - 1) / columns, (box["height"] - 1) / rows, rtol=0.01)
    assert f"= {7 * 8 * 3} multiply-adds" in shown.inner_text()
    assert f"= {7 * 8 * 6} multiply-adds" in shown.inner_text()
    said = printed(shown)
    assert "score (7, 8) weight (7, 8) out (7, 6)" in said
    assert f"QK^T: {7 * 8 * 3}  of AV: {7 * 8 * 6}" in said


def test_a_pixel_attends_as_the_library_s_block_does(page: Any) -> None:
    page.goto("/all-at-once.html")
    shown = figure(page, "Pixels attend to pixels")
    for steps in (0, 3):
        slide(shown.get_by_role("slider", name="Noise"), -steps)
        slide(shown.get_by_role("slider", name="column"), steps)
        lines = dict(line.split(":", 1) for line in printed(shown).splitlines())
        np.testing.assert_allclose(number(told(shown, "Largest weight")), float(lines["largest weight"]), rtol=2e-3)
        far = float(lines["further than 5 pixels away"])
        np.testing.assert_allclose(number(told(shown, "further than").removesuffix(" %")), 100 * far, atol=0.06)
        after = lines["pixel before"].partition("after:")[2].strip(" []").split()
        np.testing.assert_allclose(numbers(told(shown, "and after").split(", ")), np.array(after, float), atol=0.006)


# ---- The map as a picture ------------------------------------------------------------------------------------


def read_cell(shown: Any, seen: maps.Seen, layer: int, head: int, i: int, j: int) -> None:
    """The readings beside the map are those of the model's own map."""
    weight = np.asarray(seen.run.maps[layer][head])
    np.testing.assert_allclose(number(told(shown, "Weight")), weight[i, j], atol=1e-4)
    np.testing.assert_allclose(number(told(shown, "The row sums to")), 1, atol=5e-3)
    entropy = number(told(shown, "Entropy").removesuffix(" nats"))
    np.testing.assert_allclose(entropy, formula.entropy(weight[i]), atol=0.02)
    np.testing.assert_allclose(number(told(shown, "receives")), weight[:, j].sum(), atol=0.02)


def test_a_trained_head_is_read_cell_by_cell(page: Any) -> None:
    page.goto("/map.html")
    shown = figure(page, "A trained head")
    seen = maps.see("induction", maps.model_of("induction").default_text)
    read_cell(shown, seen, 1, 0, 20, 7)
    slide(shown.get_by_role("slider", name="Query"), 13)
    slide(shown.get_by_role("slider", name="Key"), -1)
    slide(shown.get_by_role("slider", name="Head"), 2)
    read_cell(shown, seen, 1, 2, 33, 6)
    picture = shown.get_by_role("img", name="Weights of 42 tokens")
    picture.scroll_into_view_if_needed()
    box = picture.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 14.5 / 42, box["y"] + box["height"] * 27.5 / 42)
    read_cell(shown, seen, 1, 2, 27, 14)
    assert "induction" in told(shown, "Known pattern")


def test_a_text_of_one_s_own_is_mapped_by_this_machine(page: Any) -> None:
    page.goto("/map.html?trained.i=6&trained.j=3")
    shown = figure(page, "A trained head")
    shown.get_by_label("A text of your own").fill("abcdabcdab")
    shown.get_by_role("button", name="Map it").click()
    shown.get_by_role("grid").wait_for()
    cells = grid(shown, "Weights of the head")
    weight = np.asarray(maps.see("induction", "abcdabcdab").run.maps[1][0])
    np.testing.assert_allclose(np.nan_to_num(cells), weight, atol=0.0051)
    page.wait_for_url("**trained.text=abcdabcdab**")
    assert f"weight {weight[6, 3]:.4f}"[:-1] in printed(shown)


def test_one_map_gives_opposite_outputs_and_a_heavy_key_may_add_nothing(page: Any) -> None:
    page.goto("/map.html")
    shown = figure(page, "The same map, other values")
    weight = toy.map(4)[1, 7]
    outputs = numbers(shown.locator("tfoot .value").all_inner_texts())
    values = np.array([1, 0.8, -0.5, 0, 1, -1, 0, 0.2])
    np.testing.assert_allclose(outputs, [weight @ values, -weight @ values], atol=6e-4)
    shown.get_by_role("button", name="“cat” in A = 0").click()
    values[1] = 0
    np.testing.assert_allclose(number(shown.locator("tfoot .value").first.inner_text()), weight @ values, atol=6e-4)
    assert "0.92" in shown.locator("tr", has_text="cat").inner_text()


def test_another_map_gives_the_same_output_without_the_heaviest_key(page: Any) -> None:
    page.goto("/map.html")
    shown = figure(page, "The same map, other values")
    said = printed(shown)
    line = next(line for line in said.splitlines() if line.startswith("another map"))
    assert line.endswith(f"output: {toy.map(4)[1, 7] @ [1, 0.8, -0.5, 0, 1, -1, 0, 0.2]:.3f}")
    assert "nothing on “cat”" in shown.inner_text()


def test_the_text_counts_the_heads_that_look_at_cls_as_the_survey_does(page: Any) -> None:
    try:
        seen = maps.see("minilm", maps.model_of("minilm").default_text)
    except MissingError as error:
        missing(str(error))
    places = [(layer, head) for layer in range(seen.model.n_layers) for head in range(seen.model.n_heads)]
    patterns = [maps.head_of(seen, *place)["pattern"] for place in places]
    sinks = [found for found in patterns if found and found["looks_at"].startswith("[CLS]")]
    page.goto("/map.html")
    assert f"{len(sinks)} of MiniLM’s {len(places)} heads" in page.get_by_role("main").inner_text()


def test_a_link_in_the_text_shows_the_head_that_it_speaks_of(page: Any) -> None:
    page.goto("/map.html")
    page.get_by_role("link", name="head 1 of layer 0").click()
    shown = figure(page, "A trained head")
    shown.get_by_text("previous token").wait_for()
    assert number(told(shown, "Weight")) > 0.5
    assert page.evaluate("scrollY") > 0


# ---- Three roles ---------------------------------------------------------------------------------------------


def head(part: int) -> tuple[np.ndarray, ...]:
    return tuple(each[part] for each in toy.layer(4).project(toy.x()))


def test_causal_rows_end_at_the_last_key_and_rows_without_keys_are_zeros(page: Any) -> None:
    page.goto("/three-roles.html?roles.role=causal&roles.n_q=8&roles.n_k=5&roles.head=1")
    shown = figure(page, "One formula, three roles")
    q, k, _ = head(1)
    score = formula.score(q, k[3:])
    expected = formula.weight(formula.hide(score, formula.causal(8, 5)))
    np.testing.assert_allclose(np.nan_to_num(grid(shown, "Weights of the head")), expected, atol=0.0051)
    rows = [
        row.locator("td").all_inner_texts()
        for row in shown.get_by_role("table", name="What each").locator("tbody tr").all()
    ]
    assert rows[:3] == [["nothing", "0", "0"]] * 3
    assert rows[7][:2] == ["5 of 5", "1"]


def test_cross_attention_takes_queries_from_another_text(page: Any) -> None:
    page.goto("/three-roles.html")
    shown = figure(page, "One formula, three roles")
    shown.get_by_role("radio", name="cross").check(force=True)
    shown.get_by_role("radio", name="reference").check(force=True)
    slide(shown.get_by_role("slider", name="n_q"), -3)
    q, k, _ = head(1)
    np.testing.assert_allclose(
        grid(shown, "Weights of the head"), formula.weight(formula.score(q[[6, 7, 2]], k)), atol=0.0051
    )
    assert shown.get_by_role(
        "img", name="Queries come from one sequence of 3, keys and values from another of 8"
    ).is_visible()


def test_a_shuffle_moves_rows_and_only_a_mask_feels_it(page: Any) -> None:
    page.goto("/three-roles.html")
    shown = figure(page, "The same tokens in another order")
    shown.get_by_role("button", name="Shuffle").click()
    assert number(told(shown, "difference of a weight")) < 1e-15
    assert number(told(shown, "difference of an output")) < 1e-15
    order = [int(each) for each in code(shown).partition("order = [")[2].partition("]")[0].split(",")]
    layer = toy.map(1)[0][:]
    np.testing.assert_allclose(grid(shown, "Weights after the shuffle"), layer[np.ix_(order, order)], atol=0.0051)
    shown.get_by_role("button", name="Back in order").click()
    shown.get_by_label("Causal mask").check()
    assert number(told(shown, "difference of an output")) == 0
    page.goto("/three-roles.html?shuffle.causal=1")
    assert number(told(figure(page, "The same tokens"), "difference of an output")) > 0.1
