"""The cards: all there and in one form, and every number that they state is computed here again.

A number with a decimal point, or with a space between thousands, has to be in `COMPUTED` for its card, or in `GIVEN`:
chosen for an example, or taken from a paper. Whole numbers can't be told from counts and steps; those that are results
stand in `COMPUTED` with a word beside them.
"""

import math
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qkv import cost, experiments, formula, toy

CARDS = Path(__file__).parents[1] / "src" / "qkv_lab" / "cards"
SLUGS = (
    "query-key-value", "score", "scale", "softmax", "temperature", "mask", "causal", "self", "cross", "heads",
    "output-matrix", "additive", "dot-and-general", "non-local", "attention-map", "entropy", "sink", "kv-cache", "cost",
)  # fmt: skip
FOLDERS = {slug: CARDS / f"{number}-{slug}" for number, slug in enumerate(SLUGS, 1)}
DEPTHS = ("brief", "more", "deep")
LINES = {"brief": (3, 6), "more": (11, 18), "deep": (12, 60)}  # paragraphs: a handful, about fifteen, all of it
THIN = "\u202f"  # between thousands
NUMBER = re.compile(rf"(?<![\w.])\d+(?:[.{THIN}]\d+)+")


def card(slug: str) -> dict[str, Any]:
    return tomllib.loads((FOLDERS[slug] / "card.toml").read_text(encoding="utf-8"))


def text(slug: str, depth: str) -> str:
    return (FOLDERS[slug] / f"{depth}.md").read_text(encoding="utf-8")


def stated(slug: str) -> str:
    """All that a card says, without its list of sources; thousands in formulas spaced as elsewhere."""
    question = card(slug)["question"]
    said = [question["ask"], *(f"{option['text']} {option['why']}" for option in question["options"])]
    said += [text(slug, depth).split("\n## Source")[0] for depth in DEPTHS]
    return "\n".join(said).replace(r"\,", THIN)


def thousands(count: float) -> str:
    return f"{count:,.0f}".replace(",", THIN)


def digits(places: int, *numbers: float) -> set[str]:
    return {f"{number:.{places}f}" for number in numbers}


# ---- what the cards state, computed -----------------------------------------------------------------------------

Q, K = np.array([[2.0, 0, 1, 1]]), np.array([[1.0, 0, 1, 1], [0, 1, 1, 1], [0, 2, 0, 0]])
V = np.array([[4.0, 0], [0, 4], [2, 2]])
SCORE = formula.score(Q, K)
WEIGHT = formula.weight(SCORE)
THREE = digits(3, *WEIGHT[0])
FIRST_TWO = np.array([[True, True, False]])
IMAGE = 224**2


def pair(output: np.ndarray) -> str:
    return "({:.3f}, {:.3f})".format(*output[0])


def weights_at(*temperatures: float) -> set[str]:
    """Weights, entropies and effective keys of the scores 2, 1, 0."""
    said: set[str] = set()
    for tau in temperatures:
        row = formula.weight(SCORE / tau)
        nats = formula.entropy(row)[0]
        said |= (
            digits(3, nats)
            | digits(2, math.exp(nats))
            | {each for each in digits(3, *row[0]) if 0.001 < float(each) < 0.999}
        )
    return said


def seen(n: int) -> int:
    return cost.visible_pairs(n, n, causal=True)


def of_scores() -> dict[str, set[str]]:
    dots = " ".join(f"{each:.0f}" for each in formula.dot_score(Q, K)[0])
    assert (dots, SCORE.tolist()) == ("4 2 0", [[2.0, 1.0, 0.0]])
    longer = formula.dot_score(Q, 3 * K[1:2])[0, 0]
    exps, two = np.exp(SCORE[0]), formula.weight(np.array([[8.0, 0.0]]))[0]
    one, four = formula.weight(np.array([[1.0, 0.0]]))[0], formula.weight(np.array([[2.0, 0, 0, 0]]))[0]
    slopes = [experiments.slope(row)[0] for row in (two, one, four)]
    e = f"{math.e:.3f}"
    return {
        "score": {e, f"factor of {math.exp(5):.0f}", f"dot product is {longer:.0f}"},
        "scale": digits(4, *two, slopes[0]) | digits(3, *one, slopes[1], *four, slopes[2])
        | {f"{slopes[1] / slopes[0]:.0f} times", *digits(1, math.sqrt(512), math.sqrt(128))},
        "softmax": THREE | digits(3, *exps, sum(exps), formula.lse(SCORE)[0], *formula.weight(2 * SCORE)[0])
        | {f"{formula.lse(SCORE)[0]:.3f}", f"about {math.exp(5):.0f}"},
        "temperature": weights_at(0.1, 0.5, 1, 2, 10) | digits(3, math.log(3)) | {">0.999", "<0.001"},
    }  # fmt: skip


def of_masks() -> dict[str, set[str]]:
    hidden = formula.weight(formula.hide(SCORE, FIRST_TWO))
    late = np.where(FIRST_TWO, WEIGHT, 0).sum()
    reference = np.asarray(toy.map(4))[toy.names(4).index("reference")]
    it, cat, mat = toy.TOKENS.index("it"), toy.TOKENS.index("cat"), toy.TOKENS.index("mat")
    assert np.sort(reference[it])[-3] < 0.0065
    looks = digits(3, reference[it, cat], reference[cat, it])
    shares = {"A": 0.6 * 0.1, "B": 0.4 * 3.0}
    return {
        "mask": THREE | digits(3, hidden[0, 0], hidden[0, 1], late)
        | {pair(formula.average(WEIGHT, V)), pair(formula.average(hidden, V))},
        "causal": {f"{seen(8)} of 64", thousands(seen(1000))},
        "self": looks,
        "attention-map": looks | digits(3, reference[it, mat], np.sort(reference[it])[-3])
        | digits(3, *(each / sum(shares.values()) for each in shares.values()))
        | {"0.06", "1.2", f"one map in float32 takes {50_000**2 * 4 / 1e9:.0f} GB"},
    }  # fmt: skip


def of_heads() -> dict[str, set[str]]:
    it, cat = toy.TOKENS.index("it"), toy.TOKENS.index("cat")
    sliced = toy.map(4).scores("raw")[:, it, it] * 2
    assert sliced.tolist() == [4, -4, 0, 4]
    assert sliced.sum() == toy.map(1).scores("raw")[0, it, it] * 4
    layer = cost.layer(512, 8)
    assert layer.parameters == cost.layer(512, 16).parameters
    counts = {thousands(layer.parameters), thousands(layer.weights["w_o"])}
    three = thousands(layer.parameters - layer.weights["w_o"])
    written = np.array([[3.0, 1.0]]) @ np.array([[1.0, 0.0], [0.5, 2.0]])
    assert written.tolist() == [[3.5, 2.0]]
    additive = formula.additive_score(
        np.array([[1.0, -1.0]]), np.array([[0.5, 1.0]]), np.eye(2), np.eye(2), np.array([2.0, 1.0])
    )
    small, large = cost.dot(1000, 1000, 64), cost.additive(1000, 1000, 64)
    q, k, swap = np.array([[1.0, 2.0]]), np.array([[3.0, 1.0]]), np.array([[0.0, 1.0], [1.0, 0.0]])
    return {
        "heads": counts | {three} | digits(3, *(np.asarray(toy.map(n))[head, it, cat] for n, head in ((4, 1), (1, 0)))),
        "output-matrix": counts | {"3.5"},
        "additive": digits(3, math.tanh(1.5), additive[0, 0])
        | {
            f"{large.multiply_adds / 1e6:.1f} million",
            f"{(large.multiply_adds - small.multiply_adds) / 1e6:.1f} million",
        }
        | {f"{small.multiply_adds / 1e6:.0f} million", f"{large.tanhs / 1e6:.0f} million | none"}
        | {f"{large.numbers / 1e6:.0f} million | {small.numbers / 1e6:.0f} million"},
        "dot-and-general": {thousands(512 * 512), thousands(2 * 512 * 64)}
        | {f"= {formula.dot_score(q, k)[0, 0]:.0f}", f"= {formula.bilinear_score(q, k, swap)[0, 0]:.0f}"},
    }


def of_measures() -> dict[str, set[str]]:
    nats, lse = formula.entropy(WEIGHT)[0], formula.lse(SCORE)[0]
    it = toy.map(4).entropy()[:, toy.TOKENS.index("it")]
    found, nothing = (float(it[toy.names(4).index(name)]) for name in ("reference", "predicates"))
    assert math.isclose(math.exp(nothing), 8)
    sinks = {z: formula.weight(SCORE, np.array([z])) for z in (0.0, 2.0)}
    said = {number for row in sinks.values() for number in digits(3, *row[0], row.sum())}
    return {
        "entropy": THREE | digits(3, nats, lse, nats / math.log(2), nats / math.log(3))
        | digits(3, *(math.log(n) for n in (2, 3, 8)))
        | digits(3, float(WEIGHT[0] @ SCORE[0]), 1 / math.log(2), math.log(10))
        | digits(2, math.exp(nats), math.exp(found), 1 / float(np.sum(WEIGHT**2))),
        "sink": THREE | said | {pair(formula.average(row, V)) for row in (WEIGHT, *sinks.values())},
    }  # fmt: skip


def of_costs() -> dict[str, set[str]]:
    patches, pixels = cost.layer(768, 12).cost(196), cost.layer(768, 12).cost(IMAGE)
    assert cost.layer(768, 12).cost(1536).projections == 2 * cost.layer(768, 12).cost(1536).scores
    assert [flip.n for flip in cost.flips(512)] == [512, 1536]
    ratio = (pixels.scores + pixels.average) / pixels.projections
    one_map = f"{pixels.weights_bytes / 12 / 1e9:.2f} GB"
    llama, gpt2 = cost.model("llama-3-8b"), cost.model("gpt2")
    token = llama.cost(1, dtype="bfloat16").kv_cache_bytes
    whole = llama.cost(8192, dtype="bfloat16").kv_cache_bytes
    assert token is not None
    assert whole == 2**30
    step = gpt2.cost(1, dtype="float16").kv_cache_bytes or 0
    groups = llama.layer.n_heads // llama.layer.n_kv_heads
    return {
        "non-local": {thousands(196**2), thousands(784**2), thousands(IMAGE), thousands(IMAGE**2), one_map},
        "kv-cache": {thousands(token), thousands(token * groups), thousands(step), thousands(1000 * 1001 / 2), "1 GiB"}
        | {f"{groups} GiB", f"{step * 1024 / 1e6:.1f} MB"},
        "cost": {thousands(IMAGE), thousands(patches.weights_bytes / 12), one_map}
        | {f"{patches.projections / (2 * patches.scores):.1f} times dearer", f"{ratio:.1f}"}
        | {f"{2 * patches.scores / patches.projections:.3f}", f"{patches.weights_bytes / 1e6:.1f} MB"}
        | {f"{patches.projections / 1e6:.0f} million", f"{2 * patches.scores / 1e6:.0f} million"}
        | {f"{pixels.projections / 1e9:.0f} billion", f"{2 * pixels.scores / 1e9:.0f} billion"},
    }


COMPUTED = {**of_scores(), **of_masks(), **of_heads(), **of_measures(), **of_costs()}
GIVEN = {
    "scale": {"0.99", "0.49", "0.86", "0.97", "0.30", "0.32"},  # measured: the test of the experiment, below
    "softmax": {"1.000"},
    "temperature": {"0.1", "0.5", "0.7"},  # chosen
    "causal": {"1.00"},  # the weight of the only key
    "heads": {"24.9", "25.5", "25.8", "25.4"},  # Vaswani et al. 2017, table 3 (A)
    "output-matrix": {"0.5"},  # chosen
    "additive": {"0.5", "1.5"},  # chosen, and their sum 1 + 0.5
    "attention-map": {"0.6", "0.4", "0.1", thousands(50_000)},  # chosen
    "entropy": {"0.5", "0.8", "1.92"},  # a wrong option; chosen; measured, below
}


# ---- the tests --------------------------------------------------------------------------------------------------


def test_there_are_nineteen_cards() -> None:
    assert sorted(path.name for path in CARDS.iterdir() if path.is_dir()) == sorted(
        path.name for path in FOLDERS.values()
    )
    assert len(SLUGS) == 19


@pytest.mark.parametrize("slug", SLUGS)
def test_a_card_has_three_depths_and_a_question(slug: str) -> None:
    assert {path.name for path in FOLDERS[slug].iterdir()} == {"card.toml", *(f"{depth}.md" for depth in DEPTHS)}
    table = card(slug)
    assert set(table) == {"title", "summary", "read", "question"}
    assert "\n" not in table["summary"]
    for depth in DEPTHS:
        paragraphs = [each for each in text(slug, depth).split("\n\n") if each.strip()]
        least, most = LINES[depth]
        assert least <= len(paragraphs) <= most, f"{depth} has {len(paragraphs)} paragraphs"
    assert "## Source" in text(slug, "deep")
    assert r"\[" in text(slug, "deep")


@pytest.mark.parametrize("slug", SLUGS)
def test_one_option_is_right_and_every_option_explains_itself(slug: str) -> None:
    question = card(slug)["question"]
    options = question["options"]
    assert question["ask"].endswith("?")
    assert 3 <= len(options) <= 4
    assert sum(option["right"] for option in options) == 1
    assert (
        len({option["text"].lower() for option in options})
        == len({option["why"] for option in options})
        == len(options)
    )
    for option in options:
        assert set(option) == {"text", "right", "why"}
        assert len(option["why"].split()) >= 10, option["why"]


def test_the_right_option_is_given_away_by_neither_place_nor_length() -> None:
    options = [card(slug)["question"]["options"] for slug in SLUGS]
    places = [[option["right"] for option in each].index(True) for each in options]
    longest = [max(each, key=lambda option: len(option["text"]))["right"] for each in options]
    assert all(2 <= places.count(place) <= 8 for place in range(4)), places
    assert sum(longest) <= len(SLUGS) / 3


@pytest.mark.parametrize("slug", SLUGS)
def test_a_card_leads_to_no_other_place(slug: str) -> None:
    said = (FOLDERS[slug] / "card.toml").read_text(encoding="utf-8") + "".join(text(slug, depth) for depth in DEPTHS)
    assert not re.search(r"https?:|www\.|\]\(|<[a-z]", said)


def missing(parts: Iterable[str], whole: str) -> list[str]:
    return [part for part in parts if part not in whole]


@pytest.mark.parametrize("slug", SLUGS)
def test_every_number_of_a_card_is_computed_here(slug: str) -> None:
    said, computed, given = stated(slug), COMPUTED.get(slug, set()), GIVEN.get(slug, set())
    assert not missing(computed | given, said), "computed here and not stated by the card"
    known = set(NUMBER.findall(" ".join(computed))) | given
    assert set(NUMBER.findall(said)) - known == set(), "stated by the card and not computed here"


def test_the_small_case_of_three_projections_is_computed_right() -> None:
    three = [[1, 0], [1, 1]], [[0, 1], [1, 0]], [[2, 0], [0, 2]]
    q, k, v = (rf"\(({each[0, 0]}, {each[0, 1]})\)" for each in formula.project_qkv([[1, 2]], *three))
    assert f"the query is {q}, the key {k} and the value {v}" in text("query-key-value", "deep")


def test_the_experiment_of_the_scale_gives_the_numbers_of_its_table() -> None:
    for each in experiments.saturation((4, 64, 1024), 10, n_draws=20_000):
        row = re.search(rf"^\| {each.d_k} \| ([\d.]+) \| ([\d.]+) \|$", text("scale", "deep"), re.MULTILINE)
        assert row is not None
        for said, measured in zip(row.groups(), (each.raw.largest, each.scaled.largest), strict=True):
            assert abs(float(said) - measured.value) < 0.005 + 4 * measured.standard_error
        if each.d_k > 4:
            percent = {64: 34, 1024: 80}[each.d_k]
            assert f"({percent} %)" in text("scale", "deep")
            assert abs(percent / 100 - each.raw.saturated.value) < 0.005 + 4 * each.raw.saturated.standard_error
        if each.d_k == 64:
            assert abs(1.92 - each.scaled.entropy.value) < 0.005 + 4 * each.scaled.entropy.standard_error


def test_the_slope_of_entropy_is_that_of_the_card() -> None:
    nats, step = formula.entropy(WEIGHT)[0], 1e-6
    for place in range(3):
        moved = SCORE + step * np.eye(3)[place]
        slope = (formula.entropy(formula.weight(moved))[0] - nats) / step
        assert math.isclose(slope, -WEIGHT[0, place] * (math.log(WEIGHT[0, place]) + nats), abs_tol=1e-5)
