"""One direction: a module imports from those earlier in the line; a library is imported at its home only."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from repo.tree import PACKAGE, ROOT, parsed, python_files, relative

# From the formula to the command line. Modules of one tuple stand side by side and do not know each other.
LINE: tuple[tuple[str, ...], ...] = (
    ("formula", "errors"),
    ("_typing",),
    ("_arrays", "_progress"),
    ("_broadcast",),
    ("_tile",),
    ("_alignment",),
    ("_visible",),
    ("masks", "biases", "scores"),
    ("_problem",),
    ("_tiles",),
    ("_core",),
    ("_kernel", "_rows"),
    ("_visible_counts", "_cells"),
    ("_scan",),
    ("_read",),
    ("_explain",),
    ("_index",),
    ("_matrix",),
    ("_plan", "_merge"),
    ("draw",),
    ("measures",),
    ("_notebook",),
    ("_map",),
    ("_rollout", "_compare"),
    ("_cache",),
    ("heads",),
    ("experiments", "toy"),
    ("cost",),
    ("models",),
    ("torch",),
    ("transformers",),
    ("tracing",),
    ("cli",),
)
PLACE = {name: place for place, names in enumerate(LINE) for name in names}

# What the line alone would allow, and a reader would not expect.
KNOWS_ONLY = {"formula": set[str](), "draw": {"errors", "_typing"}}
KNOWN_ONLY_BY = {"draw": {"_notebook", "cli"}, "models": {"tracing", "cli"}}

# Where a library that is no dependency of `import qkv` may be imported.
AT_HOME = {
    "array_api_compat": {"_arrays"},
    "ml_dtypes": {"_arrays"},
    "PIL": {"draw"},
    "safetensors": {"models"},
    "torch": {"torch", "transformers", "tracing"},
    "transformers": {"transformers", "tracing"},
    "tokenizers": {"models"},
    "typer": {"cli"},
    "click": {"cli"},
    "rich": {"cli"},
    "qkv_lab": {"cli"},
}
OPENS_FILES = {"models", "tracing", "cli"}
FILE_CALLS = set("open read_text read_bytes write_text write_bytes urlopen socket memmap fromfile".split())

MODULES = [path for path in python_files("src") if path != PACKAGE / "__init__.py"]


def layer(path: Path) -> str:
    """The module or folder directly in the package that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and full dotted name of everything a file imports, at its top or inside a function."""
    package = ("qkv", *path.relative_to(PACKAGE).parent.parts)
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else ()
            stem = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{stem}.{alias.name}") for alias in node.names)


def ours(path: Path) -> Iterator[tuple[int, str]]:
    """Line and layer of each import of a module of ours; "" is the package itself."""
    for line, name in imports(path):
        parts = name.split(".")
        if parts[0] == "qkv":
            yield line, parts[1] if len(parts) > 1 else ""


def test_every_module_has_its_place_in_the_line() -> None:
    found = {layer(path) for path in MODULES}
    lost = sorted(found - PLACE.keys())
    assert not lost, f"{lost} stand in no layer: give them a place in LINE, in this file, and in ARCHITECTURE.md"


def test_the_architecture_page_names_every_module() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    missing = [name for name in PLACE if f"{name}.py" not in page and f"{name}/" not in page]
    assert not missing, f"ARCHITECTURE.md does not say what {missing} are for"


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_a_module_imports_only_from_modules_earlier_in_the_line(path: Path) -> None:
    own = layer(path)
    wrong = []
    for line, other in ours(path):
        if other == own or (own == "cli" and other in {"", *PLACE}):
            continue
        if other not in PLACE:
            wrong.append(f"line {line} imports {other or 'the package itself'}, which is no layer below it")
        elif PLACE[other] >= PLACE.get(own, 0):
            wrong.append(f"line {line} imports {other}, which does not come earlier")
    assert not wrong, f"{relative(path)}: " + "; ".join(wrong)


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_formula_and_drawings_know_nothing_of_the_rest(path: Path) -> None:
    own = layer(path)
    others = [(line, other) for line, other in ours(path) if other != own]
    far = [f"{other} (line {line})" for line, other in others if other not in KNOWS_ONLY.get(own, {other})]
    hidden = [f"{other} (line {line})" for line, other in others if own not in KNOWN_ONLY_BY.get(other, {own})]
    assert not far, f"{relative(path)} imports {far}; it is to know only {sorted(KNOWS_ONLY[own])}"
    assert not hidden, f"{relative(path)} imports {hidden}; who may: {KNOWN_ONLY_BY}"


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_a_library_is_imported_only_where_it_is_at_home(path: Path) -> None:
    own = layer(path)
    wrong = []
    for line, name in imports(path):
        library = name.split(".")[0]
        home = AT_HOME.get(library, set())
        if library not in sys.stdlib_module_names and library not in {"numpy", "qkv"} and own not in home:
            wrong.append(f"line {line} imports {library} (at home in: {', '.join(home) or 'no module'})")
    assert not wrong, f"{relative(path)}: " + "; ".join(wrong)


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_only_models_traces_and_the_command_line_open_files(path: Path) -> None:
    if layer(path) in OPENS_FILES:
        return
    calls = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.Call)]
    names = [(call.lineno, getattr(call.func, "id", getattr(call.func, "attr", ""))) for call in calls]
    wrong = [f"line {line} calls {name}" for line, name in names if name in FILE_CALLS]
    assert not wrong, f"{relative(path)}: {'; '.join(wrong)}; files are opened in {sorted(OPENS_FILES)}"
