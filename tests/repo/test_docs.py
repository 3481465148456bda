"""The documents: links lead somewhere, Python in them runs, each decision is held by a test that exists."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from repo.tree import ROOT, names_of_tests, own_files, relative

PAGES = [path for path in own_files() if path.suffix == ".md"]
DECISIONS = [path for path in PAGES if path.parent == ROOT / "docs" / "decisions"]
EXAMPLES = [path for path in own_files() if path.parent == ROOT / "examples" and path.suffix == ".py"]
N_DECISIONS = 11

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"")
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
TEST_NAME = re.compile(r"`(test_\w+)`")
ARGUMENTS = re.compile(r"^Tested with: (.*)$", re.MULTILINE)

PAGES_WITH_PYTHON = [page for page in PAGES if BLOCK.search(page.read_text(encoding="utf-8"))]


def anchor(heading: str) -> str:
    """The address that a heading gets on a page."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def headings(page: Path) -> set[str]:
    """The addresses of all headings of a page."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    return {anchor(found) for found in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_every_link_leads_somewhere(page: Path) -> None:
    broken = []
    for groups in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        link = groups[0] or groups[1]
        if re.match(r"[a-z]+:", link):
            continue
        target, _, place = link.partition("#")
        path = (page.parent / target).resolve() if target else page
        if not path.exists() or (place and path.suffix == ".md" and place not in headings(path)):
            broken.append(link)
    assert not broken, f"{relative(page)} links to {broken}, which do not exist"


@pytest.mark.parametrize("page", PAGES_WITH_PYTHON, ids=relative)
def test_the_python_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__page__"}
    for number, block in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")), 1):
        exec(compile(block, f"{relative(page)}, block {number}", "exec"), names)  # noqa: S102


def test_the_readme_shows_python() -> None:
    assert BLOCK.search((ROOT / "README.md").read_text(encoding="utf-8")), "the README has no ```python block"


def test_each_decision_has_a_page_and_is_listed_in_the_readme() -> None:
    numbers = sorted(int(page.name.split("-")[0]) for page in DECISIONS)
    assert numbers == list(range(1, N_DECISIONS + 1)), f"docs/decisions holds the pages {numbers}"
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    unlisted = [page.name for page in DECISIONS if page.name not in readme]
    assert not unlisted, f"README.md does not link to {unlisted}"


@pytest.mark.parametrize("page", DECISIONS, ids=relative)
def test_a_decision_is_held_by_tests_that_exist(page: Path) -> None:
    named = TEST_NAME.findall(page.read_text(encoding="utf-8"))
    assert named, f"{relative(page)} names no test; a decision without one is an opinion"
    lost = [name for name in named if name not in names_of_tests()]
    assert not lost, f"{relative(page)} names {lost}; no test has that name"


def test_there_are_examples() -> None:
    assert EXAMPLES, "examples/ holds no Python file"


@pytest.mark.parametrize("example", EXAMPLES, ids=relative)
def test_an_example_runs(example: Path, tmp_path: Path) -> None:
    """With the arguments of its line `Tested with: …`, from an empty folder."""
    given = ARGUMENTS.search(example.read_text(encoding="utf-8"))
    command = [sys.executable, "-W", "error", str(example), *(given.group(1).split() if given else [])]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{relative(example)} ended with {done.returncode}:\n{done.stderr}"
