"""The project's own files, and the Python in them: what the laws of this folder are held against."""

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "qkv"
CODE_FOLDERS = ("src", "lab", "tests", "bench", "examples")
_NOT_OURS = {".git", ".venv", ".venv-bench", "build", "dist", "node_modules"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def relative(path: Path) -> str:
    """The path as a sentence names it: from the root of the project."""
    return path.relative_to(ROOT).as_posix()


@cache
def own_files() -> tuple[Path, ...]:
    """Every file that is or could be committed; all but caches and environments where there is no git."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        paths = [ROOT / name for name in listed.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        paths = [path for path in ROOT.rglob("*") if not _NOT_OURS & set(path.relative_to(ROOT).parts)]
    return tuple(sorted(path for path in paths if path.is_file() and "__pycache__" not in path.parts))


def text_files() -> Iterator[tuple[Path, str]]:
    """Each of our files that is text, with its text."""
    for path in own_files():
        try:
            yield path, path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def python_files(*folders: str) -> list[Path]:
    """The Python files of these folders; of all code folders when none is named."""
    wanted = folders or CODE_FOLDERS
    return [path for path in own_files() if path.suffix == ".py" and relative(path).split("/")[0] in wanted]


@cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of a Python file."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=relative(path))


def functions(path: Path) -> Iterator[Function]:
    """Every function and method of a Python file."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, Function):
            yield node


def names_of_tests() -> dict[str, Path]:
    """The name of every test outside this folder, with the file it stands in."""
    outside = [path for path in python_files("tests") if path.parent.name != "repo"]
    return {each.name: path for path in outside for each in functions(path) if each.name.startswith("test_")}
