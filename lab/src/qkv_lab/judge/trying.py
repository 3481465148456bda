"""What came of each call of a learner's functions, and what is to be said of it."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .running import Tape, attempt, line_of, message_of
from .values import TOLERANCE, difference, frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Case(NamedTuple):
    """One call of one function, with a few words on what is special about it."""

    function: str
    label: str
    arguments: tuple[Any, ...]


class Outcome(NamedTuple):
    """What came of a call: a value or an exception, and the number of the argument that it wrote to."""

    value: Any = None
    error: BaseException | None = None
    changed: int | None = None


class Missing(Exception):
    """There is no function of that name."""


def _same_input(before: Any, after: Any) -> bool:
    if isinstance(before, np.ndarray):
        same_kind = before.dtype == after.dtype and before.shape == after.shape
        return bool(same_kind and before.tobytes() == after.tobytes())
    if isinstance(before, list | tuple):
        return len(before) == len(after) and all(map(_same_input, before, after))
    return bool(before == after)


def call(function: Callable[..., Any], case: Case, tape: Tape) -> Outcome:
    """The outcome of one case. The function gets copies, so that no case hears of another."""
    given = copy.deepcopy(case.arguments)
    value, error = attempt(lambda: frozen(function(*given)), tape)
    pairs = zip(case.arguments, given, strict=True)
    changed = next((at for at, (before, after) in enumerate(pairs) if not _same_input(before, after)), None)
    return Outcome(value, error, changed)


def outcomes(names: dict[str, Any], cases: Iterable[Case], tape: Tape) -> list[Outcome]:
    """The outcome of each case with the functions in `names`."""
    missing = Outcome(error=Missing())
    return [call(names[case.function], case, tape) if callable(names.get(case.function)) else missing for case in cases]


def alike(one: Outcome, other: Outcome, tolerance: float = TOLERANCE) -> bool:
    """Whether two programs did the same."""
    if one.error is not None or other.error is not None:
        return type(one.error) is type(other.error)
    return one.changed == other.changed and not difference(one.value, other.value, tolerance)


def problem(want: Outcome, got: Outcome, case: Case, names: list[str], tolerance: float) -> str:
    """What is wrong with an outcome, in a sentence or two; "" if nothing is."""
    if isinstance(got.error, Missing):
        return f"There is no function {case.function} yet. Write def {case.function}({', '.join(names)}): …"
    if want.error is not None:
        expected = type(want.error).__name__
        if got.error is None:
            return f"These inputs don't fit, so raise {expected}. It returned instead."
        if isinstance(got.error, type(want.error)):
            return ""
        return f"These inputs don't fit, so raise {expected}. It raised {type(got.error).__name__} instead."
    if isinstance(got.error, SystemExit):
        return "It ended the program. Return the result instead of calling exit."
    if got.error is not None:
        return _raised(got.error, case, names)
    found = difference(want.value, got.value, tolerance)
    if found or got.changed is None:
        return found
    name = names[got.changed]
    return f"It changed its argument {name}, which belongs to the caller. Work on a copy: {name}.copy()."


def _raised(error: BaseException, case: Case, names: list[str]) -> str:
    line = line_of(error)
    name, message = type(error).__name__, message_of(error)
    if isinstance(error, TypeError) and line is None:
        return f"It can't be called with the arguments of the task, {case.function}({', '.join(names)}): {message}."
    if isinstance(error, RecursionError):
        return f"It calls itself again and again, in line {line}, without an end." if line else message
    where = f" in line {line}" if line else ""
    return f"It raised {name}{where}: {message or 'without a message'}."
