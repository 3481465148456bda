"""The cases of a lesson, its solution and its mutants; the verdict on a learner's program."""

from __future__ import annotations

import ast
import inspect
from typing import Any, NamedTuple

import numpy as np

from .running import Tape, attempt, execute, line_of, told
from .trying import Case, Missing, Outcome, alike, outcomes, problem
from .values import TOLERANCE, show


class Mutant(NamedTuple):
    """A wrong program: the slip it stands for, why that is wrong, and the functions in which it differs."""

    name: str
    why: str
    source: str


def mutants(files: dict[str, str]) -> dict[str, Mutant]:
    """The mutants of a lesson by path. The first line of a docstring is the name, the rest is why it is wrong."""
    found = {}
    for path in sorted(path for path in files if path.startswith("mutants/")):
        name, _, why = (ast.get_docstring(ast.parse(files[path])) or "").partition("\n")
        found[path] = Mutant(name.strip(), " ".join(why.split()), files[path])
    return found


class Lesson:
    """What a learner is held against: the cases of one seed, and what solution and mutants do with them."""

    def __init__(self, files: dict[str, str], seed: int) -> None:
        tests = execute(files["tests.py"], name="tests.py")
        self.tolerance: float = tests.get("TOLERANCE", TOLERANCE)
        self.cases = [Case(*each) for each in tests["cases"](np.random.default_rng(seed))]
        self.functions = list(dict.fromkeys(case.function for case in self.cases))
        self.mutants = mutants(files)
        self._of_mutants: dict[str, list[Outcome]] = {}
        self._solution = files["solution.py"]
        self._names = execute(self._solution, name="solution.py")
        self.want = outcomes(self._names, self.cases, Tape())

    def parameters(self, function: str) -> list[str]:
        return list(inspect.signature(self._names[function]).parameters)

    def of(self, function: str) -> list[int]:
        """The numbers of the cases of one function."""
        return [at for at, case in enumerate(self.cases) if case.function == function]

    def of_mutant(self, path: str) -> list[Outcome]:
        """The outcome of each case under a mutant, which keeps what it does not change of the solution."""
        if path not in self._of_mutants:
            names = execute(self._solution, self.mutants[path].source, name=path)
            self._of_mutants[path] = outcomes(names, self.cases, Tape())
        return self._of_mutants[path]

    def same(self, some: list[Outcome], others: list[Outcome], function: str) -> bool:
        """Whether two programs do the same with a function on every case."""
        return all(alike(some[at], others[at], self.tolerance) for at in self.of(function))

    def slips(self, got: list[Outcome], failed: list[str]) -> dict[str, Mutant]:
        """The mutant that does as the learner's function does, for each that failed.

        Of several it is the one that agrees on the most functions, right ones too: a slip in a function that others
        call shows in all of them, and one that would show elsewhere is not what was done.
        """
        # A function that never gets as far as a result fails for any reason at all: no mutant speaks for that.
        failed = [each for each in failed if any(got[at].error is None for at in self.of(each))]
        found: dict[str, Mutant] = {}
        agreed: dict[str, int] = {}
        for path, mutant in self.mutants.items() if failed else ():
            its = self.of_mutant(path)
            agreeing = [function for function in self.functions if self.same(its, got, function)]
            for function in agreeing:
                if function in failed and len(agreeing) > agreed.get(function, 0):
                    found[function], agreed[function] = mutant, len(agreeing)
        return found

    def failure(self, at: int, got: Outcome) -> dict[str, Any] | None:
        """What is wrong with the outcome of one case, for the page; None if nothing is."""
        case, want = self.cases[at], self.want[at]
        names = self.parameters(case.function)
        found = problem(want, got, case, names, self.tolerance)
        if not found:
            return None
        given = "".join(f"\n{name} = {show(each)}" for name, each in zip(names, case.arguments, strict=False))
        return {
            "label": case.label,
            "call": f"{case.function}({', '.join(names)}){given}",
            "expected": _said(want),
            "got": _said(got),
            "problem": found,
            "line": None if got.error is None else line_of(got.error),
        }


def _said(outcome: Outcome) -> str:
    if isinstance(outcome.error, Missing):
        return "no such function"
    return show(outcome.value) if outcome.error is None else f"raises {type(outcome.error).__name__}"


def judge(source: str, files: dict[str, str], seed: int) -> dict[str, Any]:
    """The verdict on `source`, as JSON knows it; `files` are those of the lesson, by their path in its folder.

    {"ok", "output", "error": None or {"type", "message", "line", "traceback"}, "functions": [{"name", "ok", "cases",
    "failed": None or {"label", "call", "expected", "got", "problem", "line"}, "slip": None or {"name", "why"}}]}
    """
    lesson, tape = Lesson(files, seed), Tape()
    names, error = attempt(lambda: execute(source), tape)
    if error is not None:
        unknown = {"ok": False, "failed": None, "slip": None}
        functions = [{"name": each, "cases": len(lesson.of(each)), **unknown} for each in lesson.functions]
        return {"ok": False, "output": tape.text(), "error": told(error, source), "functions": functions}
    functions = verdicts(lesson, outcomes(names, lesson.cases, tape))
    return {"ok": all(each["ok"] for each in functions), "output": tape.text(), "error": None, "functions": functions}


def run(source: str) -> dict[str, Any]:
    """Runs a program and judges nothing: {"output", "error"}, as in `judge`."""
    tape = Tape()
    _, error = attempt(lambda: execute(source), tape)
    return {"output": tape.text(), "error": None if error is None else told(error, source)}


def verdicts(lesson: Lesson, got: list[Outcome]) -> list[dict[str, Any]]:
    """Function by function: whether it does as the solution does, the first case in which not, and the slip."""
    found = {}
    for function in lesson.functions:
        failures = (lesson.failure(at, got[at]) for at in lesson.of(function))
        found[function] = next((each for each in failures if each), None)
    slips = lesson.slips(got, [function for function, failed in found.items() if failed])
    return [
        {
            "name": function,
            "ok": failed is None,
            "cases": len(lesson.of(function)),
            "failed": failed,
            "slip": {"name": slips[function].name, "why": slips[function].why} if function in slips else None,
        }
        for function, failed in found.items()
    ]
