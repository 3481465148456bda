"""The command that checks lessons finds what is wrong with one."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from qkv_lab.check import LESSONS, faults

FIRST, SECOND = LESSONS / "1-queries-keys-values", LESSONS / "2-scores-and-scale"

# What is spoiled: the file, what stands in it, what it becomes, and what the check says.
SPOILED = {
    "two right options": (
        "lesson.toml",
        'why = "A query asks',
        'right = true\nwhy = "A query asks',
        "exactly one option",
    ),
    "an option unexplained": (
        "lesson.toml",
        'why = "A query asks',
        'because = "A query asks',
        "needs a `text` and a `why`",
    ),
    "a wrong answer": ("lesson.toml", "answer = [3, 2]", "answer = [3, 3]", "says [3, 3], but `q` gives [3, 2]"),
    "a slip that is right": (
        "lesson.toml",
        'answer = [2, 1]\ncomputed = "k"',
        'answer = [3, 2]\ncomputed = "q"',
        "is the same as the answer",
    ),
    "a number nobody computed": ("lesson.toml", 'computed = "q"\n', "", "needs `computed`"),
    "a table left open": ("lesson.toml", "[predict]", "[predict", "lesson.toml: "),
    "too few hints": ("lesson.toml", "hints = [", "hints = []\nmore = [", "needs 2 hints"),
    "a formula left open": ("idea.md", r"\(q\)", r"\(q", "idea.md has"),
    "a heading lost": ("reference.md", "## Common mistakes", "## Mistakes", "has no ## Common mistakes"),
    "a stale worked example": ("reference.md", "0.669762", "0.669763", "does not print 0.669763"),
    "an example that needs NumPy": ("example.py", "from math", "import numpy\nfrom math", "does not run without NumPy"),
    "a wrong solution": ("solution.py", "(n_q, d_v)", "(n_q, n_k)", "is right but rejected"),
    "tests that see little": (
        "tests.py",
        'yield "output_shape", label.',
        'yield "param_count", label.',
        "wrong but passes",
    ),
    "tests that never change": (
        "tests.py",
        "def cases(rng):",
        "def cases(_):\n    rng = np.random.default_rng(1)",
        "every seed",
    ),
    "tests that always change": (
        "tests.py",
        "def cases(rng):",
        "def cases(_):\n    rng = np.random.default_rng()",
        "same seed",
    ),
    "a mutant twice": ("mutants/count_columns.py", "2 * d_k + d_v", "3 * d_model * d_k", "is told as"),
    "a mutant that is right": (
        "mutants/count_columns.py",
        "2 * d_k",
        "(d_model - 1) * (2 * d_k + d_v) + 2 * d_k",
        "wrong but passes",
    ),
    "a mutant without a reason": ("mutants/asserts.py", "\n\nAn assert", '"""\n"""An assert', "needs a docstring"),
    "a mutant beside the point": ("mutants/asserts.py", "def project_qkv", "def project", "which solution.py does not"),
    "a starter with a function less": ("starter.py", "def project_qkv(X", "def project(X", "starter.py should"),
    "a slip of the pen": ("solution.py", "def output_shape(", "def output_shape(((", "SyntaxError"),
}


def spoil(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text, f"{path.name} has no {old!r}"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


@pytest.mark.parametrize("what", SPOILED)
def test_the_check_finds(what: str, tmp_path: Path) -> None:
    name, old, new, said = SPOILED[what]
    folder = tmp_path / FIRST.name
    shutil.copytree(FIRST, folder)
    spoil(folder / name, old, new)
    found = faults(folder, seeds=[1])
    assert any(said in fault for fault in found), found


def test_the_check_misses_a_file_and_counts_mutants_and_other_right_ways(tmp_path: Path) -> None:
    folder = tmp_path / FIRST.name
    shutil.copytree(FIRST, folder)
    for path in [*sorted((folder / "mutants").glob("*.py"))[7:], folder / "others" / "lists.py"]:
        path.unlink()
    assert faults(folder, seeds=[1]) == [
        "others holds 2 programs; 3 other right ways are needed",
        "mutants holds 7 programs; 8 are needed",
    ]
    (folder / "task.md").unlink()
    assert faults(folder) == ["there is no task.md"]


GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "lessons.md"
TEXTS = {"idea.md": "What it is about.", "task.md": "What to write."}


def test_the_lesson_of_the_guide_is_right_but_for_its_numbers(tmp_path: Path) -> None:
    """Its files stand in the guide, each in the block after the last name of a file before it."""
    parts = re.split(r"^```\w+\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    written = {
        re.findall(r"`([\w/]+\.(?:py|md|toml))`", text)[-1]: block
        for text, block in zip(parts[::2], parts[1::2], strict=False)
    }
    written["reference.md"] = next(block for block in parts[1::2] if block.startswith("## Maths"))
    folder = tmp_path / "7-effective-keys"
    for name, text in {**TEXTS, **written}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    assert faults(folder) == [
        "others holds 1 programs; 3 other right ways are needed",
        "mutants holds 1 programs; 8 are needed",
    ]


def test_the_command_prints_a_line_for_a_lesson_and_its_faults(tmp_path: Path) -> None:
    bad = tmp_path / "7-empty"
    bad.mkdir()
    command = [sys.executable, "-m", "qkv_lab.check", str(SECOND), str(bad)]
    ran = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    lines = ran.stdout.splitlines()
    assert ran.returncode == 1 and ran.stderr == ""
    assert lines[0].startswith(f"{SECOND.name}: 3 functions, ") and lines[0].endswith("mutants rejected by name")
    assert lines[1:3] == ["7-empty: not right yet", "    there is no lesson.toml"]
