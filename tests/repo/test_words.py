"""What no file may contain: a path of one machine, the address of a registry, a skip without its reason."""

import ast
import re
from pathlib import Path

import pytest

from repo.tree import parsed, python_files, relative, text_files

# Written in pieces, so that this file does not contain what it looks for.
_FOLDERS = ("work", "root", "opt", "home", "Users", "mnt")
MACHINE_PATH = re.compile(r"(?<![\w.~\-/}])/(?:" + "|".join(_FOLDERS) + r")/[\w.\-]+")
_HOSTS = [name + ".org" for name in ("pypi", "pythonhosted", "npmjs", "download.pytorch", "conda.anaconda")]
_OPTIONS = ["--" + name for name in ("index-url", "extra-index-url", "find-links", "trusted-host")]
REGISTRY = re.compile("|".join(re.escape(word) for word in (*_HOSTS, *_OPTIONS)))

SKIPS = {"skip", "skipif", "xfail", "importorskip"}


def hits(pattern: re.Pattern[str]) -> list[str]:
    """File, line and text of every place in the project where the pattern stands."""
    return [
        f"{relative(path)}:{number}: {found.group()}"
        for path, text in text_files()
        for number, line in enumerate(text.splitlines(), 1)
        for found in pattern.finditer(line)
    ]


def test_no_file_names_a_path_of_one_machine() -> None:
    found = hits(MACHINE_PATH)
    assert not found, "these lines work on one machine only:\n" + "\n".join(found)


def test_no_file_names_a_registry() -> None:
    found = hits(REGISTRY)
    assert not found, "where packages come from is the user's setting:\n" + "\n".join(found)


def reason_of(call: ast.Call, name: str) -> bool:
    """Whether a call of a skip says why."""
    given = [ast.unparse(keyword.value).strip("'\"") for keyword in call.keywords if keyword.arg == "reason"]
    return any(given) or (name in {"skip", "xfail"} and bool(call.args))


def silent_skips(path: Path) -> list[str]:
    """The skips of a test file that give no reason."""
    tree = parsed(path)
    called = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in SKIPS and "pytest" in ast.unparse(node.value):
            call = called.get(id(node))
            if call is None or not reason_of(call, node.attr):
                found.append(f"line {node.lineno}: {ast.unparse(node)}")
    return found


@pytest.mark.parametrize("path", python_files("tests", "lab"), ids=relative)
def test_every_skip_says_why(path: Path) -> None:
    found = silent_skips(path)
    assert not found, f"{relative(path)}: {found} give no reason="
