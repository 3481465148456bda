"""Checks folders of lessons: that their format is right, and that what grades them is proven.

    python -m qkv_lab.check [FOLDER …]      all lessons of the lab, unless folders are named

A lesson is proven when its solution and every other right way to write it pass, and each mutant, a wrong program, is
rejected and told by its own name. docs/guide/lessons.md describes the format.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .judge import Lesson, judge
from .judge.running import Tape, execute
from .judge.trying import outcomes
from .judge.values import difference
from .judge.verdict import verdicts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LESSONS = Path(__file__).parent / "lessons"
TEXTS = ("idea.md", "task.md", "reference.md")
PROGRAMS = ("starter.py", "solution.py", "tests.py", "example.py")
HEADINGS = ("## Maths", "## Worked example", "## Common mistakes")
MUTANTS, OTHERS, HINTS = 8, 3, 2  # at least
SEEDS = range(3)

_NO_NUMPY = "import runpy, sys; sys.modules['numpy'] = None; runpy.run_path(sys.argv[1], run_name='__main__')"
_DECIMAL = re.compile(r"\d+\.\d{3,}")


def programs(folder: Path) -> dict[str, str]:
    """The Python files of a lesson, by their path in its folder."""
    return {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in folder.rglob("*.py")}


# ---- questions and typed answers ----------------------------------------------------------------------------


def _question(name: str, table: Any) -> Iterator[str]:
    if not isinstance(table, dict) or not table.get("ask"):
        yield f"[{name}] needs an `ask`"
        return
    options = table.get("options", [])
    if len(options) < 2:
        yield f"[{name}] needs two options or more"
    if sum(option.get("right") is True for option in options) != 1:
        yield f"[{name}] needs exactly one option with `right = true`"
    for number, option in enumerate(options, 1):
        if not option.get("text") or not option.get("why"):
            yield f"[{name}] option {number} needs a `text` and a `why`, right or wrong"


def _near(one: Any, other: Any, tolerance: float) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return bool(one == other)
    a, b = np.asarray(one, float), np.asarray(other, float)
    return a.shape == b.shape and bool(np.all(np.abs(a - b) <= tolerance))


def _computed(where: str, table: dict[str, Any], names: dict[str, Any], tolerance: float) -> Iterator[str]:
    """A number that is typed is also computed, so that nobody has to believe it."""
    if isinstance(table["answer"], str):
        return
    if "computed" not in table:
        yield f"{where} needs `computed`, the Python expression that gives its answer"
        return
    value = np.asarray(eval(table["computed"], names))  # noqa: S307 (the lesson's own expression)
    if not _near(table["answer"], value, max(tolerance, 1e-9)):
        yield f"{where} says {table['answer']}, but `{table['computed']}` gives {value.tolist()}"


def _typed(where: str, table: dict[str, Any], names: dict[str, Any]) -> Iterator[str]:
    lost = [key for key in ("ask", "label", "answer", "tolerance") if key not in table]
    if lost:
        yield f"{where} has no {', '.join(lost)}"
        return
    tolerance, told = table["tolerance"], [("the answer", table["answer"])]
    yield from _computed(where, table, names, tolerance)
    for number, slip in enumerate(table.get("slips", []), 1):
        here = f"{where} slip {number}"
        if "answer" not in slip or not slip.get("name"):
            yield f"{here} needs an `answer` and a `name`"
            continue
        yield from _computed(here, slip, names, tolerance)
        yield from (f"{here} is the same as {what}" for what, other in told if _near(slip["answer"], other, tolerance))
        told.append((f"slip {number}", slip["answer"]))


def _toml(folder: Path) -> Iterator[str]:
    try:
        table = tomllib.loads((folder / "lesson.toml").read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        yield f"lesson.toml: {error}"
        return
    yield from (f"lesson.toml has no {key}" for key in ("title", "summary") if not table.get(key))
    if len(table.get("hints", [])) < HINTS:
        yield f"lesson.toml needs {HINTS} hints or more, from gentle to nearly the answer"
    for name in ("predict", "check"):
        yield from (f"lesson.toml: {fault}" for fault in _question(name, table.get(name)))
    solution = (folder / "solution.py").read_text(encoding="utf-8")
    names = execute(solution, "import numpy as np", table.get("given", ""), name="lesson.toml")
    if not table.get("typed"):
        yield "lesson.toml needs one [[typed]] or more"
    for number, each in enumerate(table.get("typed", []), 1):
        yield from (f"lesson.toml: {fault}" for fault in _typed(f"[[typed]] {number}", each, names))


# ---- texts --------------------------------------------------------------------------------------------------


def _section(text: str, heading: str) -> str:
    return text.partition(f"{heading}\n")[2].partition("\n## ")[0]


def _texts(folder: Path) -> Iterator[str]:
    for name in TEXTS:
        text = (folder / name).read_text(encoding="utf-8")
        for start, end in ((r"\(", r"\)"), (r"\[", r"\]")):
            if text.count(start) != text.count(end):
                yield f"{name} has {text.count(start)} {start} and {text.count(end)} {end}"
    reference = (folder / "reference.md").read_text(encoding="utf-8")
    yield from (f"reference.md has no {each}" for each in HEADINGS if not _section(reference, each).strip())
    command = [sys.executable, "-I", "-c", _NO_NUMPY, str(folder / "example.py")]
    ran = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False, timeout=60)  # noqa: S603
    if ran.returncode:
        yield f"example.py does not run without NumPy: {ran.stderr.strip().splitlines()[-1]}"
    printed = set(_DECIMAL.findall(ran.stdout))
    lost = [each for each in _DECIMAL.findall(_section(reference, "## Worked example")) if each not in printed]
    if lost:
        yield f"reference.md: example.py does not print {', '.join(lost)} of the worked example"


# ---- programs -----------------------------------------------------------------------------------------------


def _failed(report: dict[str, Any]) -> str:
    """Why a program was rejected, in a line."""
    if report["error"]:
        return f"{report['error']['type']}: {report['error']['message']}"
    each = next(each for each in report["functions"] if not each["ok"])
    return f"{each['name']} ({each['failed']['label']}): {each['failed']['problem']}"


def _right(files: dict[str, str], seed: int) -> Iterator[str]:
    others = sorted(path for path in files if path.startswith("others/"))
    if len(others) < OTHERS:
        yield f"others holds {len(others)} programs; {OTHERS} other right ways are needed"
    for path in ("solution.py", *others):
        report = judge(files[path], files, seed)
        if not report["ok"]:
            yield f"{path} is right but rejected, seed {seed}: {_failed(report)}"
    report = judge(files["starter.py"], files, seed)
    if report["ok"] or report["error"] or any(each["got"] == "no such function" for each in _failures(report)):
        yield "starter.py should run, define every function, and not pass"


def _failures(report: dict[str, Any]) -> list[dict[str, Any]]:
    return [each["failed"] for each in report["functions"] if each["failed"]]


def _defined(source: str) -> set[str]:
    return {node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}


def _wrong(files: dict[str, str], seed: int) -> Iterator[str]:
    lesson = Lesson(files, seed)
    if len(lesson.mutants) < MUTANTS:
        yield f"mutants holds {len(lesson.mutants)} programs; {MUTANTS} are needed"
    for path, mutant in lesson.mutants.items():
        if not mutant.name or not mutant.why:
            yield f"{path} needs a docstring: its name, an empty line, and why it is wrong"
        if unknown := _defined(mutant.source) - _defined(files["solution.py"]):
            yield f"{path} defines {', '.join(sorted(unknown))}, which solution.py does not"
        names = execute(files["solution.py"], mutant.source)
        functions = verdicts(lesson, outcomes(names, lesson.cases, Tape()))
        told = {each["slip"]["name"]: each["name"] for each in functions if each["slip"]}
        if all(each["ok"] for each in functions):
            yield f"{path} is wrong but passes, seed {seed}"
        elif mutant.name not in told:
            yield f"{path} is rejected but not told by its name, seed {seed}"
        for name in told.keys() - {mutant.name}:
            yield f"{path} is told as {name!r}, not {mutant.name!r}, by {told[name]}, seed {seed}"


def _fresh(files: dict[str, str]) -> Iterator[str]:
    one, again, other = (Lesson(files, seed).cases for seed in (1, 1, 2))

    def same(some: list[Any], others: list[Any]) -> bool:
        return all(not difference(a.arguments, b.arguments) for a, b in zip(some, others, strict=True))

    if len(one) != len(again) or not same(one, again):
        yield "tests.py draws other cases from the same seed"
    elif len(one) == len(other) and same(one, other):
        yield "tests.py draws the same cases from every seed"


# ---- the whole ----------------------------------------------------------------------------------------------


def faults(folder: Path, seeds: Iterable[int] = SEEDS) -> list[str]:
    """What is wrong with a lesson, a line each, judged on the cases of some seeds."""
    lost = [name for name in ("lesson.toml", *TEXTS, *PROGRAMS) if not (folder / name).is_file()]
    if lost:
        return [f"there is no {name}" for name in lost]
    files = programs(folder)
    found: list[str] = []
    try:
        found += [*_toml(folder), *_texts(folder), *_fresh(files)]
        for seed in seeds:
            found += [*_right(files, seed), *_wrong(files, seed)]
    except Exception as error:  # noqa: BLE001 (the lesson's own programs may raise anything)
        found.append(f"{type(error).__name__}: {error}")
    return list(dict.fromkeys(found))


def summary(folder: Path) -> str:
    """How much there is to a lesson: its functions, cases and mutants."""
    lesson = Lesson(programs(folder), 0)
    return (
        f"{len(lesson.functions)} functions, {len(lesson.cases)} cases, {len(lesson.mutants)} mutants rejected by name"
    )


def main(arguments: list[str]) -> int:
    """Prints a line for each lesson that is right, and what is wrong with the others; 1 if there are any."""
    folders = [Path(each) for each in arguments] or sorted(path for path in LESSONS.iterdir() if path.is_dir())
    bad = 0
    for folder in folders:
        found = faults(folder)
        bad += bool(found)
        print(f"{folder.name}: {'not right yet' if found else summary(folder)}")
        for fault in found:
            print(f"    {fault}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
