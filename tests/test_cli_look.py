"""`qkv look`: what it says of heads that are known, on the page, as JSON and in a picture."""

import json
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest

import qkv
from command import CAT, needs_minilm, page, run, seen, with_minilm
from qkv import measures, models
from qkv.cli import patterns

INDUCTION = ["--model", "induction"]


def with_pattern(found, pattern):
    return {(each["layer"], each["head"]): each for each in found["heads"] if each["pattern"] == pattern}


@needs_minilm
def test_head_0_2_of_minilm_is_the_previous_token_head_and_shown_first():
    found = seen()
    previous = with_pattern(found, "previous token")
    assert list(previous) == [(0, 2)]
    assert previous[0, 2]["weight"] > 0.995
    assert (found["layer"], found["head"]) == (0, 2)
    assert "> (0, 2)   previous token    1.00            1.00  the token before\n" in page()


@needs_minilm
def test_in_head_5_11_it_looks_at_the_cat():
    words = [CAT, "--layer", "5", "--head", "11", "--query", "it"]
    found = seen(*words)
    assert found["query"] == {"index": 8, "token": "it"}
    assert found["tokens"][found["top"][0]["index"]] == "cat"
    assert found["top"][0]["weight"] == pytest.approx(0.712, abs=1e-3)
    rows = page(*words).split("Where query 8 'it' looks\n")[1].splitlines()
    assert rows[1].split()[:3] == ["2", "cat", "0.712"]


@needs_minilm
def test_in_head_5_11_every_token_looks_at_the_cat_so_it_says_nothing_about_it():
    found = with_pattern(seen(CAT), "one token")
    assert seen(CAT)["tokens"][found[5, 11]["key"]] == "cat"
    assert "one token" in page(CAT, "--layer", "5", "--head", "11").split("minilm, head (5, 11)")[1].splitlines()[0]


@needs_minilm
def test_sinks_look_at_a_token_of_the_model_which_moves_little():
    found = seen(CAT)
    sinks = with_pattern(found, "sink")
    assert {found["tokens"][each["key"]] for each in sinks.values()} <= {"[CLS]", "[SEP]"}
    assert sinks[2, 7]["weight"] > 0.85
    assert sinks[2, 7]["value_weighted"] < 0.2


def test_all_heads_of_layer_1_of_the_induction_model_are_induction_heads():
    found = seen(*INDUCTION)
    heads = with_pattern(found, "induction")
    assert sorted(heads) == [(1, 0), (1, 1), (1, 2), (1, 3)]
    assert min(each["weight"] for each in heads.values()) > 0.88
    assert (found["layer"], found["head"]) == max(heads, key=lambda head: heads[head]["weight"])


def test_previous_token_heads_of_the_induction_model_are_in_layer_0():
    assert list(with_pattern(seen(*INDUCTION), "previous token")) == [(0, 1), (0, 3)]


@pytest.mark.parametrize("name", ["induction", with_minilm])
def test_the_scores_of_heads_are_the_measures_of_their_maps(name):
    found, model = seen("--model", name), models.load(name)
    ids, _ = model.tokens(model.default_text)
    result = model.run(ids)
    again = [i for i in range(len(ids)) if ids[i] in ids[:i]]
    wanted = (
        measures.diagonal(-1),
        measures.induction(ids),
        measures.local(2),
        measures.received(),
        measures.entropy(normalised=True),
    )
    for each in found["heads"]:
        maps = result.maps[each["layer"]], result.value_weighted(each["layer"])
        for A, said in zip(maps, (each["weight"], each["value_weighted"]), strict=True):
            previous, copied, near, received, entropy = A[each["head"]].measure(*wanted)
            want = {
                "previous token": previous[1:].mean(),
                "induction": copied[again].mean(),
                "local": near.mean(),
                "one token": received[each["key"] or 0] / len(ids),
                "sink": received[each["key"] or 0] / len(ids),
                "broad": entropy[int(model.causal) :].mean(),
            }
            assert said == pytest.approx(want[each["pattern"]], abs=1e-6)


@pytest.mark.parametrize("name", ["induction", with_minilm])
def test_the_value_weighted_share_is_weight_times_norm_over_the_row(name):
    found, model = seen("--model", name, "--layer", "1", "--head", "2"), models.load(name)
    result = model.run(model.tokens(model.default_text)[0])
    row = result.maps[1][2, found["query"]["index"]].astype("f8")
    moved = row * result.value_norms(1)[2]
    np.testing.assert_allclose(found["weights"], row, rtol=0, atol=1e-7)
    np.testing.assert_allclose(found["value_weighted"], moved / moved.sum(), rtol=0, atol=1e-6)
    for each in found["top"]:
        assert each["weight"] == found["weights"][each["index"]]
        assert each["value_weighted"] == found["value_weighted"][each["index"]]


def test_a_value_of_length_0_has_no_value_weighted_share():
    model = models.load("induction")
    result = model.run(model.tokens("abcabc")[0])
    v = result.layers[0].v.copy()
    v[:, 2] = 0
    shares = np.asarray(replace(result, layers=(replace(result.layers[0], v=v),)).value_weighted(0))
    assert (shares[..., 2] == 0).all()
    np.testing.assert_allclose(shares.sum(axis=-1), 1, rtol=1e-5)


def test_a_head_that_attends_evenly_has_no_pattern_but_broad():
    for n in range(3, 30):
        ids, sinks = np.arange(n) % 4, np.arange(n) == 0
        for causal in (False, True):
            A = qkv.attend(np.zeros((1, n, 1)), np.zeros((1, n, 1)), causal=causal)
            for pattern in patterns.PATTERNS:
                result = A.measure(pattern.measure(ids))[0]
                if not (result > 0).any():
                    continue
                found = list(patterns._find(pattern, 0, result, result, result, result[0] > 0, sinks))
                assert bool(found) == (pattern.name == "broad")


def test_a_ranking_says_that_weights_are_no_explanation():
    assert "Weights are not an explanation" in page(*INDUCTION)
    assert "Weights are not an explanation" in seen(*INDUCTION)["note"]


def test_a_ranking_shows_the_value_weighted_measure():
    text, found = page(*INDUCTION), seen(*INDUCTION)
    assert text.count("value-weighted") == 2  # beside the weights of the heads, and beside those of the keys
    for each in found["heads"][:2]:
        row = next(line for line in text.splitlines() if line[2:].startswith(f"({each['layer']}, {each['head']})"))
        assert f"{each['weight']:7.2f}{each['value_weighted']:16.2f}" in row
    assert all({"weight", "value_weighted"} <= each.keys() for each in (*found["heads"], *found["top"]))


def test_the_page_holds_the_heads_the_map_and_the_keys_in_80_columns():
    text = page("abcabcabcabc", *INDUCTION, "--query", "7")
    for part in ("(layer, head), from 0", "\n> (1, ", "what followed it last time", "queries ↓  keys →"):
        assert part in text
    assert "Where query 7 'b' looks\n" in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_query_that_nobody_chose_is_said_to_be_chosen():
    assert "Where query 25 'm' looks, the most decided; --query shows another\n" in page(*INDUCTION)


@needs_minilm
@pytest.mark.parametrize("head", [(2, 7), (4, 5), (0, 3)])
def test_the_query_chosen_for_the_reader_is_of_the_text(head):
    found = seen(CAT, "--layer", str(head[0]), "--head", str(head[1]))
    assert found["query"]["token"] not in {"[CLS]", "[SEP]"}


def test_the_head_that_is_shown_is_listed_although_three_come_before_it():
    assert "\n> (1, 0)   induction" in page(*INDUCTION, "--layer", "1", "--head", "0")


def test_a_layer_alone_shows_its_first_head():
    found = seen(*INDUCTION, "--layer", "0")
    assert (found["layer"], found["head"]) == (0, 1)


def test_the_listed_keys_and_the_others_are_the_whole_row():
    words = [*INDUCTION, "--query", "41", "--layer", "0", "--head", "0"]
    rows = page(*words).split("value-weighted\n")[1].split("\n\n")[0].splitlines()
    numbers = [[float(part) for part in row.split() if part.replace(".", "", 1).isdigit()][-2:] for row in rows]
    np.testing.assert_allclose(np.sum(numbers, axis=0), 1, atol=0.004)
    assert len(rows) == len(seen(*words)["top"]) + 1 == 6
    assert "37 others" in rows[-1]


@pytest.mark.parametrize("text", ["a", "ab"])
def test_a_text_too_short_to_tell_heads_apart_says_so(text):
    assert "Too short a text to tell heads apart; the most decided one is shown." in page(text, *INDUCTION)
    assert seen(text, *INDUCTION)["heads"] == []


@needs_minilm
def test_one_repeated_token_makes_no_induction_head():
    assert seen(CAT)["too_few_queries"] == {"induction": 1}
    assert "Not enough queries in this text to tell: induction (1 of 3)." in page(CAT)


@needs_minilm
@pytest.mark.parametrize(
    "text",
    ["東京 は 猫 🙂 だ", "naïve café\u202e Ünï\x1b[31m\x07", "a\nb\tc", "word " * 300],
    ids=["wide", "controls", "lines", "long"],
)
def test_any_text_gives_a_page_without_control_characters(text):
    assert all(char.isprintable() for line in page(text).split("\n") for char in line)


def test_a_png_is_written_and_the_page_says_where(tmp_path):
    from PIL import Image

    path = tmp_path / "map.PNG"
    assert page(*INDUCTION, "--out", str(path)).endswith(f"\nWritten: {path}\n")
    with Image.open(path) as picture:
        assert picture.format == "PNG"
        assert min(picture.size) > 300


def test_an_svg_is_written_with_title_and_caveat(tmp_path):
    path = tmp_path / "map.svg"
    assert seen(*INDUCTION, "--out", str(path))["out"] == str(path)
    said = " ".join(ET.parse(path).getroot().itertext())
    assert "induction, head (1, 1): induction" in said
    assert "Weights are not an explanation" in said


def test_json_is_one_object_of_plain_numbers_in_ascii():
    code, out, err = run("look", *INDUCTION, "--json")
    assert (code, err) == (0, "")
    assert out.isascii()
    assert out.count("\n") == 1
    found = json.loads(out, parse_constant=pytest.fail)
    assert set(found) == set(
        "model text tokens heads too_few_queries layer head query weights value_weighted top note out".split()
    )
    assert len(found["weights"]) == len(found["value_weighted"]) == len(found["tokens"]) == 42
    assert sum(found["weights"]) == pytest.approx(1, abs=1e-5)
    assert found["out"] is None
