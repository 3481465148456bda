"""`qkv toy`, `qkv explain`, `qkv experiment`: what they print is what the library says, and fits the terminal."""

import contextlib
import dataclasses
import io
import json
import os
import re
from unittest import mock

import numpy as np
import pytest
from rich.cells import cell_len

from command import CAT, needs_minilm, refused, run, with_minilm
from qkv import experiments, models, toy
from qkv.cli import _app, _table, main
from qkv.experiments import Estimate
from qkv.models import minilm

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
EXPERIMENTS = ["variance", "saturation", "temperature", "gradient", "split", "spread"]
QUICK = ["--draws", "50"]


def printed(*words, **environment):
    """What a command that works prints, in this environment."""
    out, err = io.StringIO(), io.StringIO()
    plain = {"NO_COLOR": "1", "COLUMNS": "80", **environment}
    with mock.patch.dict(os.environ, plain), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    assert (code, err.getvalue()) == (0, "")
    return out.getvalue()


def said(*words):
    return json.loads(printed(*words, "--json"))


def longest(page):
    return max(cell_len(ESCAPE.sub("", line)) for line in page.splitlines())


# ---- qkv toy -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_heads", toy.HEADS)
def test_toy_says_the_weights_of_the_toy_layer(n_heads):
    found = said("toy", "--heads", str(n_heads), "--temperature", "0.5", "--query", "sat")
    assert found["weights"] == np.asarray(toy.map(n_heads, 0.5)).tolist()
    assert found["full"] == np.asarray(toy.map(1, 0.5))[0].tolist()
    assert found["query"] == {"index": 2, "token": "sat"}
    assert np.sum(found["dots"], axis=0).tolist() == found["full_dots"]
    assert (found["n_heads"], found["d_k"]) == (n_heads, 16 // n_heads)
    assert (found["tokens"], found["names"]) == (list(toy.TOKENS), list(toy.names(n_heads)))


def test_toy_shows_four_heads_beside_the_full_width_and_where_it_looks():
    page = printed("toy")
    for title in ("full width, d_k = 16", "head 0: same word", "head 1: reference", "head 3: same phrase"):
        assert page.count(title) == 1
    assert "     it│.04 .50 .04 .04 .04 .11 .11 .11 │" in page
    assert "     it│.01 .92 .01 .01 .01 .05 .01     │" in page
    assert "    1 cat  0.501  0.069  0.922  0.125  0.048\n" in page
    assert "q·k of 'it' and 'cat', before any scale: 0 + 10 + 0 + 0 = 10\n" in page
    assert "full width" in printed("toy", "--heads", "1")


def test_toy_turns_into_an_arg_max_when_it_is_cold():
    row = printed("toy", "--temperature", "0.01").split("Where query 7 'it' looks")[1]
    assert "1 cat  1.000" in row


@pytest.mark.parametrize("columns", [40, 60, 80, 120, 200])
@pytest.mark.parametrize("n_heads", toy.HEADS)
def test_toy_fits_the_terminal(columns, n_heads):
    assert longest(printed("toy", "--heads", str(n_heads), COLUMNS=str(columns))) <= columns


def test_a_wide_terminal_has_more_maps_on_a_line():
    heights = [len(printed("toy", COLUMNS=str(columns)).splitlines()) for columns in (50, 80, 120, 220)]
    assert heights == sorted(heights, reverse=True)
    assert heights[0] > heights[1] > heights[2] > heights[3]


@pytest.mark.parametrize("words", [["toy"], ["explain"], ["experiment", "spread"]])
def test_colours_say_nothing_that_is_not_there_without(words):
    bright = printed(*words, NO_COLOR="", FORCE_COLOR="1", COLORTERM="truecolor")
    plain = printed(*words)
    assert "\x1b" in bright and "\x1b" not in plain
    shown = [re.findall(r"[\w.·√']+", ESCAPE.sub("", page)) for page in (bright, plain)]
    assert shown[0] == shown[1]


# ---- qkv explain -------------------------------------------------------------------------------------------


def test_explain_takes_the_largest_weight_of_the_toy_apart():
    found = said("explain")
    assert (found["query"]["token"], found["key"]["token"]) == ("it", "cat")
    assert (found["head"], found["name"]) == (1, "reference")
    assert [each["product"] for each in found["channels"]] == [4, 6, 0, 0]
    stages = found["stages"]
    assert (stages["dot"], stages["raw"], stages["visible"]) == (10, 5, True)
    assert stages["weight"] == np.asarray(toy.map(4))[1, 7, 1]
    page = printed("explain")
    assert "which animate   3  ×  2  =    6\n" in page
    assert "× scale                5   1/√d_k = 1/√4\n" in page
    assert "softmax           0.9222   exp(5 − 5.081)\n" in page


def test_explain_scales_by_the_width_of_the_head_and_divides_by_the_temperature():
    stages = said("explain", "--heads", "1", "--query", "it", "--key", "cat", "--temperature", "0.5")["stages"]
    assert (stages["dot"], stages["scale"], stages["raw"]) == (10, 1 / 4, 5)
    assert stages["weight"] == np.asarray(toy.map(1, 0.5))[0, 7, 1]


@pytest.mark.parametrize("name", ["induction", with_minilm])
def test_the_channels_of_a_trained_head_add_up_and_lead_to_its_weight(name):
    found = said("explain", "--model", name)
    model = models.load(name)
    map_ = model.run(model.tokens(model.default_text)[0]).maps[found["layer"]]
    i, j = found["query"]["index"], found["key"]["index"]
    assert i != j
    stages = found["stages"]
    assert sum(each["product"] for each in found["channels"]) == pytest.approx(stages["dot"], rel=1e-5)
    assert stages["raw"] == pytest.approx(stages["dot"] * stages["scale"], rel=1e-6)
    assert stages["weight"] == pytest.approx(np.exp(stages["biased"] - stages["lse"]), rel=1e-4)
    assert stages["weight"] == pytest.approx(float(map_[found["head"]][i, j]), rel=1e-5)
    assert found["weights"] == pytest.approx(map_[found["head"]][i].tolist())
    assert sum(found["value_weighted"]) == pytest.approx(1, abs=1e-5)


@needs_minilm
def test_explain_finds_the_head_that_looks_from_it_to_cat_the_most():
    found = said("explain", CAT, "--model", "minilm", "--query", "it", "--key", "cat")
    assert (found["layer"], found["head"]) == (5, 11)
    assert found["stages"]["weight"] == pytest.approx(0.712, abs=1e-3)
    page = printed("explain", CAT, "--model", "minilm", "--query", "it", "--key", "cat")
    assert "minilm, head (5, 11)\n" in page
    assert re.search(r"24 others +[\d.]+\n", page)


def test_explain_says_that_a_key_is_hidden():
    words = ["explain", "abcabc", "--model", "induction", "--query", "1", "--key", "4"]
    found = said(*words)
    assert found["stages"]["visible"] is False
    assert found["stages"]["biased"] is None
    assert found["stages"]["weight"] == 0
    page = printed(*words)
    assert "the query may not see this key" in page
    assert "exp(−∞ − " in page


def test_explain_of_one_token_is_of_itself():
    found = said("explain", "a", "--model", "induction")
    assert (found["query"]["index"], found["key"]["index"], found["stages"]["weight"]) == (0, 0, 1)


def test_the_key_that_is_explained_is_listed_however_small_its_weight():
    page = printed("explain", "--model", "induction", "--query", "40", "--key", "7")
    assert re.search(r"^> .* 7 R ", page, re.MULTILINE)


@pytest.mark.parametrize("words", [[], ["--heads", "1"], ["--model", "induction"]])
def test_explain_fits_the_terminal(words):
    assert longest(printed("explain", *words)) <= 80


# ---- qkv experiment ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_prints_its_figures_with_standard_errors_and_fits(name):
    page = printed("experiment", name, *([] if name == "spread" else QUICK))
    assert page.count(" ±") > 8
    assert longest(page) <= 80


@pytest.mark.parametrize("name", EXPERIMENTS[:-1])
def test_the_figures_are_those_of_the_library(name):
    found = said("experiment", name, *QUICK, "--seed", "3")
    expected = getattr(experiments, name)(n_draws=50, seed=3)
    assert found["figures"] == [dataclasses.asdict(each) for each in expected]
    assert (found["experiment"], found["seed"]) == (name, 3)


def test_the_spread_is_that_of_the_trained_heads_beside_untrained_ones():
    found = said("experiment", "spread")
    model = models.load("induction")
    maps = model.run(model.tokens(model.default_text)[0]).maps
    assert found["figures"]["induction"] == [
        [dataclasses.asdict(head) for head in experiments.spread(layer)] for layer in maps
    ]
    assert len(found["figures"]["untrained"]) == 1
    assert set(found["figures"]) | set(found["missing"]) == {"untrained", *models.NAMES}


def test_without_minilm_the_spread_of_the_others_is_shown_and_says_so(monkeypatch):
    monkeypatch.setattr(minilm, "PACKAGE", "no_such_package")
    page = printed("experiment", "spread")
    assert "induction 1" in page
    assert "minilm is left out: " in page


def test_saturation_is_what_is_measured_unless_asked():
    assert printed("experiment", *QUICK) == printed("experiment", "saturation", *QUICK)


def test_more_keys_are_more_keys():
    assert [each["n_keys"] for each in said("experiment", "split", *QUICK, "--keys", "3")["figures"]] == [3] * 5


def test_a_figure_shows_two_digits_of_its_standard_error():
    cases = {
        (0.49193, 0.00462): "0.4919 ±0.0046",
        (1040.4, 32.1): "1040 ±32",
        (-0.0412, 0.0231): "−0.041 ±0.023",
        (2.3e-6, 9e-7): "2.3e-06 ±9e-07",
        (1.0, 0.0): "1 ±0",
        (0.1016, 1.2e-5): "0.101600 ±0.000012",
    }
    for (value, error), text in cases.items():
        assert _table.figure(Estimate(value, error, 10)) == text


def test_a_plot_puts_each_point_at_its_height():
    page = _table.plot(["a", "b", "c"], {"● up": [0.0, 0.5, 1.0], "○ flat": [0.25, 0.25, 0.25]}, high=1.0, across="x")
    lines = page.splitlines()
    assert lines[0].index("●") > lines[4].index("●") > lines[8].index("●")
    assert lines[6].count("○") == 3
    assert (lines[0][:3], lines[4][:3], lines[8][:3]) == ("  1", "0.5", "  0")


# ---- what is refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["toy", "--heads", "3"], ["--heads must be 1, 2, 4 or 8, got 3"]),
        (["toy", "--temperature", "0"], ["--temperature must be finite and above 0, got 0"]),
        (["toy", "--temperature", "nan"], ["--temperature", "got nan"]),
        (["toy", "--query", "the"], ["--query 'the' stands at 0 and 4"]),
        (["toy", "--query", "dog"], ["--query 'dog'", "1:cat"]),
        (["toy", "it"], ["see qkv toy --help"]),
        (["explain", "a text"], ["TEXT is for a trained model", "--model minilm or induction"]),
        (["explain", "--key", "dog"], ["--key 'dog'", "1:cat"]),
        (["explain", "--query", "the"], ["--query 'the' stands at 0 and 4"]),
        (["explain", "--head", "4"], ["--head is 4", "heads 0 to 3"]),
        (["explain", "--layer", "1"], ["--layer is 1", "layer 0"]),
        (["explain", "--heads", "5"], ["--heads must be 1, 2, 4 or 8"]),
        (["explain", "--model", "gpt"], ["toy, minilm or induction", "'gpt'"]),
        (["explain", "ab", "cd", "--model", "induction"], ["between quotes"]),
        (["explain", "--model", "induction", "--heads", "2"], ["--heads is for the toy"]),
        (["explain", "--model", "induction", "--temperature", "2"], ["--temperature is for the toy"]),
        (["explain", "--model", "induction", "--layer", "2"], ["--layer is 2", "layers 0 to 1"]),
        (["experiment", "all"], ["NAME must be variance,", "or spread, got 'all'"]),
        (["experiment", "--keys", "0"], ["--keys must be 1 to 4096, got 0"]),
        (["experiment", "--draws", "1"], ["--draws must be 2 to 1000000, got 1"]),
        (["experiment", "--seed", "-1"], ["--seed must be at least 0, got -1"]),
        (["experiment", "variance", "--keys", "5"], ["--keys is not for variance"]),
        (["experiment", "spread", "--draws", "5"], ["--draws is not for spread"]),
        (["experiment", "--keys", "ten"], ["--keys", "see qkv experiment --help"]),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(words, parts):
    refused(words, 2, f"qkv {words[0]}: ", *parts)


def test_what_cannot_be_done_ends_with_1():
    refused(["explain", "ä", "--model", "induction"], 1, "'ä'")


@pytest.mark.parametrize("verb", ["toy", "explain", "experiment"])
def test_the_help_shows_examples_that_work(verb):
    code, page, _ = run(verb, "--help")
    assert code == 0
    assert verb in _app.VERBS
    examples = [line.split() for line in page.split("Examples:")[1].splitlines() if line.strip()]
    assert len(examples) >= 3
    assert all(words[:2] == ["qkv", verb] for words in examples)
