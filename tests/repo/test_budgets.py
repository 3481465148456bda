"""Sizes at which a page is still read, and names that say what a thing is."""

import ast
import re
from pathlib import Path

import pytest

from repo.tree import functions, own_files, parsed, python_files, relative

FUNCTION_LINES = 40  # one screen
FILE_LINES = {".py": 350, ".h": 400, ".hpp": 400, ".cpp": 400, ".inl": 400, ".svelte": 200}
SAYS_NOTHING = set("util utils helper helpers manager managers wrapper engine misc common".split())

PYTHON = python_files()
SIZED = [path for path in own_files() if path.suffix in FILE_LINES]


def words(name: str) -> set[str]:
    """The words of a snake_case or CamelCase name, in lower case."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


@pytest.mark.parametrize("path", PYTHON, ids=relative)
def test_a_function_fits_one_screen(path: Path) -> None:
    spans = [(each, (each.end_lineno or 0) - each.lineno + 1) for each in functions(path)]
    long = [f"{each.name} has {n} lines" for each, n in spans if n > FUNCTION_LINES]
    assert not long, f"{relative(path)}: {'; '.join(long)}; at most {FUNCTION_LINES}, split them"


@pytest.mark.parametrize("path", SIZED, ids=relative)
def test_a_file_fits_a_sitting(path: Path) -> None:
    lines, most = len(path.read_text(encoding="utf-8").splitlines()), FILE_LINES[path.suffix]
    assert lines <= most, f"{relative(path)} has {lines} lines, at most {most}: split it by subject"


def test_a_file_is_named_for_what_it_holds() -> None:
    empty = [relative(path) for path in own_files() if SAYS_NOTHING & words(path.stem)]
    assert not empty, f"{empty}: name a file for the one thing in it"


@pytest.mark.parametrize("path", python_files("src", "lab"), ids=relative)
def test_a_class_or_function_is_named_for_what_it_is(path: Path) -> None:
    named = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    empty = [f"{node.name} (line {node.lineno})" for node in named if SAYS_NOTHING & words(node.name)]
    assert not empty, f"{relative(path)}: {empty} say nothing about what they do"
