"""The six lessons: proven graders, numbers that are computed, and solutions that do as qkv's formula does."""

import ast
import copy
import re
import runpy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from qkv import formula
from qkv_lab.check import LESSONS, faults, programs
from qkv_lab.judge import Lesson, judge
from qkv_lab.judge.running import Tape, execute
from qkv_lab.judge.trying import outcomes
from qkv_lab.judge.values import difference

SLUGS = [
    "1-queries-keys-values",
    "2-scores-and-scale",
    "3-softmax-and-masks",
    "4-weighted-output",
    "5-heads",
    "6-causal-cross-cost",
]


@pytest.fixture(scope="module", params=SLUGS)
def slug(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_the_chapter_has_its_six_lessons() -> None:
    assert sorted(path.name for path in LESSONS.iterdir() if path.is_dir()) == SLUGS


def test_a_lesson_has_no_fault(slug: str) -> None:
    assert faults(LESSONS / slug) == []


# ---- against the formula ------------------------------------------------------------------------------------


def cross(x: Any, memory: Any, w_q: Any, w_k: Any, w_v: Any) -> Any:
    return formula.attention(x @ w_q, memory @ w_k, memory @ w_v)


def contributions(weights: Any, v: Any, i: int) -> Any:
    parts = np.stack([formula.average(weights * (np.arange(len(v)) == j), v)[i] for j in range(len(v))])
    np.testing.assert_allclose(parts.sum(axis=0), formula.average(weights, v)[i], atol=1e-12)
    return parts


# Each function of the lessons, said by qkv.formula; those that count are said again in other words.
SAID_BY_FORMULA: dict[str, Callable[..., Any]] = {
    "project_qkv": formula.project_qkv,
    "qkv_shapes": formula.qkv_shapes,
    "output_shape": formula.output_shape,
    "param_count": formula.param_count,
    "dot_scores": formula.dot_score,
    "scaled_scores": lambda q, k, temperature: formula.biased_score(q, k, temperature=temperature),
    "score_std": lambda d_k, scale: float(np.linalg.norm(np.full(d_k, scale))),
    "softmax": formula.weight,
    "hide": formula.hide,
    "masked_softmax": lambda scores, visible: formula.weight(formula.hide(scores, visible)),
    "average": formula.average,
    "contributions": contributions,
    "attention": lambda q, k, v, visible: formula.attention(q, k, v, visible=visible),
    "split_heads": formula.split,
    "merge_heads": formula.merge,
    "repeat_kv": formula.repeat_heads,
    "multi_head": formula.multi_head,
    "causal": formula.causal,
    "causal_attention": lambda q, k, v: formula.attention(q, k, v, visible=formula.causal(len(q), len(k))),
    "cross_attention": cross,
    "pair_cost": lambda n_q, n_k, d_k, d_v: sum(d_k + d_v for _ in range(n_q * n_k)),
    "map_bytes": lambda n_q, n_k, n_heads, bytes_each: bytes_each * np.zeros((n_heads, n_q, n_k)).size,
}


@pytest.mark.parametrize("seed", range(3))
def test_a_solution_does_as_the_formula_does(slug: str, seed: int) -> None:
    lesson = Lesson(programs(LESSONS / slug), seed)
    for case, want in zip(lesson.cases, lesson.want, strict=True):
        function = SAID_BY_FORMULA[case.function]
        if want.error is not None:
            with pytest.raises(type(want.error)):
                function(*copy.deepcopy(case.arguments))
        else:
            assert not difference(function(*copy.deepcopy(case.arguments)), want.value, 1e-9), (
                f"{case.function}: {case.label}"
            )


def test_inputs_tell_sizes_apart(slug: str) -> None:
    """In each function of arrays there is a case in which no two of the sizes that could be mixed up are equal."""
    lesson = Lesson(programs(LESSONS / slug), 1)
    for function in lesson.functions:
        cases = [lesson.cases[at].arguments for at in lesson.of(function)]
        shapes = [{n for each in arguments if isinstance(each, np.ndarray) for n in each.shape} for arguments in cases]
        needed = (
            max(each.ndim for arguments in cases for each in arguments if isinstance(each, np.ndarray))
            if any(shapes)
            else 0
        )
        assert max(map(len, shapes)) >= needed, f"{function} never sees {needed} different sizes"


# ---- the judge of a lesson ----------------------------------------------------------------------------------

SWAPS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
}  # fmt: skip


def changes(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The program with one operator swapped or one number changed, in every place, and what was changed."""
    # np.where(row is empty, number, …): what an empty row is divided by, or has subtracted, leaves it at 0.
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "np.where"]
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    free = {id(call.args[1]) for call in calls} | {id(node) for text in texts for node in ast.walk(text)}
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and type(node.op) in SWAPS:
            before, node.op = node.op, SWAPS[type(node.op)]()
            yield ast.unparse(node), ast.unparse(tree)
            node.op = before
        elif isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
            before, node.ops = node.ops, [SWAPS[type(node.ops[0])]()]
            yield ast.unparse(node), ast.unparse(tree)
            node.ops = before
        elif isinstance(node, ast.Constant) and type(node.value) is int and id(node) not in free:
            node.value += 1
            yield f"number {node.value - 1}, column {node.col_offset} of line {node.lineno}", ast.unparse(tree)
            node.value -= 1


def test_a_solution_with_anything_changed_is_rejected(slug: str) -> None:
    files = programs(LESSONS / slug)
    lesson, survived, count = Lesson(files, 7), [], 0
    for change, source in changes(ast.parse(files["solution.py"])):
        got = outcomes(execute(source), lesson.cases, Tape())
        count += 1
        if not any(lesson.failure(at, each) for at, each in enumerate(got)):
            survived.append(change)
    assert count >= 4
    assert not survived, f"{survived} pass"


LEARNER = {
    "4-weighted-output": (
        """
        import math
        def attention(Q, K, V, visible):
            out = np.zeros((len(Q), V.shape[1]))
            for i in range(len(Q)):
                seen = np.flatnonzero(visible[i])
                if not len(seen): continue
                scores = np.array([sum(Q[i] * K[j]) for j in seen])SCALE
                terms = [math.exp(s - max(scores)) for s in scores]
                for t, j in zip(terms, seen): out[i] += t / sum(terms) * V[j]
            return out""",
        {"": "no 1/√d_k", " / Q.shape[1]": "÷ d_k, not ÷ √d_k", " / V.shape[1] ** .5": "÷ √d_v, not ÷ √d_k"},
    ),
    "5-heads": (
        """
        def split_heads(X, n_heads):
            if X.shape[1] % n_heads: raise ValueError
            d = X.shape[1] // n_heads
            return [[list(ROW) for row in X] for h in range(n_heads)]""",
        {"row[h::n_heads]": "every n-th channel in a head"},
    ),
}


@pytest.mark.parametrize("name", LEARNER)
def test_a_learner_who_writes_a_mutant_in_other_words_is_told_its_name(name: str) -> None:
    program, slips = LEARNER[name]
    files, hole = programs(LESSONS / name), "SCALE" if "SCALE" in program else "ROW"
    lines = program.splitlines()
    for written, told in slips.items():
        own = "\n".join(line.removeprefix(" " * 8) for line in lines).replace(hole, written)
        report = judge(f"{files['solution.py']}\n{own}", files, 11)
        assert told in [each["slip"]["name"] for each in report["functions"] if each["slip"]]


def test_a_learner_with_no_code_yet_is_told_of_the_missing_return(slug: str) -> None:
    files = programs(LESSONS / slug)
    report = judge(files["starter.py"], files, 1)
    assert {each["failed"]["problem"] for each in report["functions"]} == {"It returned None: is there a return?"}
    assert not any(each["slip"] for each in report["functions"])


# ---- texts --------------------------------------------------------------------------------------------------


def test_an_example_agrees_with_the_formula(capsys: pytest.CaptureFixture[str]) -> None:
    first = runpy.run_path(str(LESSONS / SLUGS[0] / "example.py"))
    want = formula.attention(np.array([[1.0, 0.0]]), np.eye(2), 2 * np.eye(2))
    np.testing.assert_allclose(first["output"], want[0], rtol=1e-12)

    scores, visible = np.array([[2.0, 0.0, 5.0]]), np.array([[True, True, False]])
    softmax = runpy.run_path(str(LESSONS / SLUGS[2] / "example.py"))["softmax"]
    np.testing.assert_allclose(
        softmax([2.0, 0.0, 5.0], [True, True, False]), formula.weight(formula.hide(scores, visible))[0]
    )

    heads = runpy.run_path(str(LESSONS / SLUGS[4] / "example.py"))
    q, k = (formula.split(np.array(heads[name], float), 2) for name in ("queries", "keys"))
    for h in range(2):
        np.testing.assert_allclose(
            heads["weights"](q[h].tolist(), k[h].tolist()), formula.weight(formula.score(q, k))[h]
        )

    roles = runpy.run_path(str(LESSONS / SLUGS[5] / "example.py"))
    x, v = np.array(roles["tokens"], float), np.array(roles["values"], float)
    mine = roles["attention"](roles["tokens"], roles["tokens"], roles["values"], roles["causal"](3, 3))
    np.testing.assert_allclose(mine, formula.attention(x, x, v, visible=formula.causal(3, 3)))
    capsys.readouterr()


def test_the_figures_of_the_first_lesson_are_those_of_its_questions() -> None:
    text = (LESSONS / SLUGS[0] / "lesson.toml").read_text(encoding="utf-8")
    answers = [
        [int(n) for n in found.split(", ")] for found in re.findall(r"^answer = \[(\d, \d)\]", text, re.MULTILINE)
    ]
    x, w_q, w_k, w_v = np.array([[1, 2]]), [[1, 0], [1, 1]], [[0, 1], [1, 0]], [[2, 0], [0, 2]]
    q, k, v = formula.project_qkv(x, w_q, w_k, w_v)
    assert all([*part[0]] in answers for part in (q, k, v))
