"""The golden values are current, complete, and agree with the map that computes tile by tile."""

import json
import math

import numpy as np
import pytest

import qkv
from golden import write
from qkv import experiments, formula, toy

pytest.importorskip("safetensors", reason="safetensors is not installed")

FILES = {path.stem: path for path in write.HERE.glob("*.json")}
AGAIN = "run python tests/golden/write.py"


def read(name):
    return json.loads(FILES[name].read_text(encoding="utf-8"))


def numbers(value):
    """A golden array back in NumPy; None stays None."""
    return None if value is None else np.array(value, np.float64)  # float("-inf") reads the strings


def differences(old, new, path=""):
    """Where two trees of values differ by more than 1e-12, relative to what is above 1."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted({*old, *new}):
            if name not in old or name not in new:
                yield f"{path}.{name} is in one only"
            else:
                yield from differences(old[name], new[name], f"{path}.{name}")
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield f"{path} has {len(old)} entries, now {len(new)}"
        for at, (one, other) in enumerate(zip(old, new, strict=False)):
            yield from differences(one, other, f"{path}[{at}]")
    elif isinstance(old, float) and isinstance(new, float):
        if not math.isclose(old, new, rel_tol=1e-12, abs_tol=1e-12):
            yield f"{path} is {old!r}, now {new!r}"
    elif old != new or type(old) is not type(new):
        yield f"{path} is {old!r}, now {new!r}"


def test_every_file_is_written_by_the_script_and_every_value_has_its_file():
    assert FILES.keys() == write.FILES.keys(), AGAIN


@pytest.mark.parametrize("name", write.FILES)
def test_a_golden_file_is_what_the_library_computes(name):
    now = json.loads(write.text(write.FILES[name]()))
    assert not list(differences(read(name), now)), AGAIN


@pytest.mark.parametrize("name", write.FILES)
def test_a_golden_file_is_laid_out_as_the_script_does_it(name):
    assert FILES[name].read_text(encoding="utf-8") == write.text(read(name)), AGAIN


def test_every_function_of_the_formula_is_in_the_golden_values(monkeypatch):
    called = set()

    def recorded(name, function):
        def call(*given, **options):
            called.add(name)
            return function(*given, **options)

        return call

    public = [name for name, each in vars(formula).items() if callable(each) and not name.startswith("_")]
    own = {name for name in public if getattr(formula, name).__module__ == "qkv.formula"}
    for name in own:
        monkeypatch.setattr(formula, name, recorded(name, getattr(formula, name)))
    for name in ("softmax", "attention", "heads"):
        write.FILES[name]()
    assert not own - called, "these functions have no golden value"


@pytest.mark.parametrize("case", read("attention")["cases"], ids=lambda case: case["name"])
def test_the_map_gives_the_golden_values(case):
    q, k, v, bias = (numbers(case[name]) for name in ("q", "k", "v", "bias"))
    visible = None if case["visible"] is None else np.array(case["visible"])
    options = {name: case[name] for name in ("scale", "temperature", "softcap")}
    A = qkv.attend(q, k, mask=visible, bias=bias, **options)
    for stage in ("raw", "capped", "biased"):
        assert np.asarray(A.scores(stage)) == pytest.approx(numbers(case[stage]), rel=1e-12, abs=1e-12)
    for found, name in ((A, "weight"), (A.lse(), "lse"), (A.entropy(), "entropy"), (A @ v, "output")):
        assert np.asarray(found) == pytest.approx(numbers(case[name]), rel=1e-12, abs=1e-12), name


def test_the_cases_reach_every_corner():
    cases = {case["name"]: case for case in read("attention")["cases"]}
    shapes = [(len(case["q"]), len(case["k"]), len(case["q"][0]), len(case["v"][0])) for case in cases.values()]
    assert any(n_q != n_k and d_k != d_v for n_q, n_k, d_k, d_v in shapes)
    empty = [case for case in cases.values() if "-inf" in case["lse"]]
    assert len(empty) >= 3
    for case in empty:
        row = case["lse"].index("-inf")
        assert set(case["weight"][row]) == set(case["output"][row]) == {0}
        assert case["entropy"][row] == 0
    assert np.abs(numbers(cases["large scores"]["raw"])).max() > 1000
    assert {len(layer["weight"]) for layer in read("heads")["layers"]} == {1, 2, 4}


def test_the_numbers_of_the_lesson_are_among_them():
    rows = {case["name"]: case for case in read("softmax")["cases"]}
    assert np.round(rows["two keys eight apart"]["weight"], 4).tolist() == [0.9997, 0.0003]
    assert np.round(rows["two keys one apart"]["weight"], 3).tolist() == [0.731, 0.269]
    assert np.round(rows["one of four at two"]["weight"], 3).tolist() == [0.711, 0.096, 0.096, 0.096]
    assert round(rows["two keys one apart"]["slope"][0], 3) == 0.197
    lesson = read("heads")["lesson"]
    assert (lesson["q"], lesson["k"], lesson["v"]) == ([[3, 2]], [[2, 1]], [[2, 4]])


def test_the_toy_and_the_experiments_are_whole():
    assert [each["n_heads"] for each in read("toy")["heads"]] == list(toy.HEADS)
    found = read("experiments")
    assert [each["d_k"] for each in found["saturation"]] == list(experiments.WIDTHS)
    estimate = found["saturation"][0]["raw"]["largest"]
    assert estimate.keys() == {"value", "standard_error", "n"}
    assert estimate["n"] == found["n_draws"] == write.N_DRAWS
    assert [len(layer) for layer in found["spread"]["induction"]] == [4, 4]


def test_a_value_that_json_has_no_number_for_is_a_string():
    assert write.plain([math.inf, -math.inf, math.nan, np.float32(0.5), np.bool_(True)]) == [
        "inf",
        "-inf",
        "nan",
        0.5,
        True,
    ]
