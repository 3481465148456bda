"""The folders of the lab's pages, from the numbers to the pages: each imports from those before it, and from itself."""

import re
from pathlib import Path

import pytest

from repo.tree import ROOT, own_files, relative

SOURCE = ROOT / "lab" / "web" / "src"
# maths is arithmetic, content and maps say what data looks like, parts draw what they are given.
LAYERS = ["maths", "content.ts", "maps.ts", "state", "parts", "python", "figures", "learn", "views"]
FILES = [path for path in own_files() if SOURCE in path.parents and path.suffix in {".ts", ".svelte"}]
NAMED = re.compile(r"""(?:from|import|glob(?:<[^(]*>)?)\s*\(?\s*["'](\.[^"']+)["']""")


def layer(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0]


@pytest.mark.parametrize("path", [path for path in FILES if layer(path) in LAYERS], ids=relative)
def test_a_folder_of_the_pages_imports_only_from_those_before_it(path: Path) -> None:
    place = LAYERS.index(layer(path))
    named = [(path.parent / name).resolve() for name in NAMED.findall(path.read_text(encoding="utf-8"))]
    inside = [each for each in named if SOURCE in each.parents]
    wrong = [relative(each) for each in inside if LAYERS.index(layer(each)) > place]
    assert not wrong, f"{relative(path)} imports {', '.join(wrong)}"


@pytest.mark.parametrize("path", [path for path in FILES if layer(path) == "maths"], ids=relative)
def test_the_maths_of_the_pages_knows_no_page(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert path.suffix == ".ts"
    assert not re.search(r"""\$(state|derived|effect)|from ["']svelte|\bdocument\b|\bwindow\b|\blocalStorage\b""", text)
