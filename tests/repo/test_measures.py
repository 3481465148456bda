"""A measure says its formula, its unit and its source, and is held against dense float64."""

import ast
import re

import pytest

from qkv import measures
from repo.tree import Function, parsed, python_files

FORMULA = re.compile(r"Σ|w_ij|s_ij|max_j|exp\(|log ")
UNIT = re.compile(r"\b(nats|bits|shares?|keys|queries)\b")
SOURCE = re.compile(r"\b(19|20)\d\d\b|no source needed")
MARK = "dense_float64"  # in the name of every test that compares measures with their formula on dense weights

KINDS = {name: getattr(measures, name) for name in measures.__all__}
MEASURES = [
    name
    for name, kind in KINDS.items()
    if isinstance(kind, type) and issubclass(kind, measures.Measure) and kind is not measures.Measure
]


def definitions(tree: ast.Module) -> dict[str, ast.stmt]:
    """What a module defines at its top, by name."""
    found: dict[str, ast.stmt] = {}
    for node in tree.body:
        if isinstance(node, Function | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {each.id: node for each in targets if isinstance(each, ast.Name)}
    return found


def source_of(name: str, found: dict[str, ast.stmt]) -> str:
    """The text of a definition and of everything in its module that it uses."""
    seen, waiting = set[str](), [name]
    while waiting:
        now = waiting.pop()
        seen.add(now)
        used = {node.id for node in ast.walk(found[now]) if isinstance(node, ast.Name)}
        waiting += sorted((used & found.keys()) - seen - set(waiting))
    return "\n".join(ast.unparse(found[each]) for each in sorted(seen))


def comparisons() -> str:
    """The text of every test that compares measures with dense float64."""
    texts = []
    for path in python_files("tests"):
        if path.parent.name != "repo":
            found = definitions(parsed(path))
            texts += [source_of(name, found) for name in found if name.startswith("test_") and MARK in name]
    return "\n".join(texts)


def test_there_are_measures() -> None:
    assert MEASURES


@pytest.mark.parametrize("name", MEASURES)
def test_a_measure_says_its_formula_its_unit_and_its_source(name: str) -> None:
    text = KINDS[name].__doc__ or ""
    wanted = {"formula": FORMULA, "unit": UNIT, "source (or 'no source needed')": SOURCE}
    missing = [what for what, pattern in wanted.items() if not pattern.search(text)]
    assert not missing, f"the docstring of measures.{name} has no {', no '.join(missing)}"


@pytest.mark.parametrize("name", MEASURES)
def test_a_measure_is_compared_with_dense_float64(name: str) -> None:
    named = re.search(rf"\bmeasures\.{name}\(|['\"]{name}['\"]|\b{name}\(", comparisons())
    assert named, f"no test named …{MARK}… uses measures.{name}; compare it with its formula on dense weights"
