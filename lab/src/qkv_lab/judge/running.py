"""Running code that may do anything: print without end, exit, recurse, delete what is built in."""

from __future__ import annotations

import builtins
import io
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

YOURS = "<your code>"
MOST_OUTPUT = 10_000  # characters
MOST_FRAMES = 8
# Calls within calls. A browser's stack ends before Python's own limit and takes Python down with it: in Pyodide 314,
# `sorted([n, n], key=f)` inside f did so at a limit of 250, and nothing of 18 kinds of recursion at 180.
MOST_CALLS = 150 if sys.platform == "emscripten" else None

_BUILTINS = vars(builtins)


class Tape(io.TextIOBase):
    """What a program prints, as far as `MOST_OUTPUT`."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._room = MOST_OUTPUT
        self._more = False

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        if not isinstance(text, str):
            raise TypeError(f"only text can be written here, not {type(text).__name__}")
        self._more = self._more or len(text) > self._room
        self._parts.append(text[: self._room])
        self._room -= len(self._parts[-1])
        return len(text)

    def close(self) -> None:
        """A program may close its output; what it printed stays."""

    def text(self) -> str:
        return "".join(self._parts) + ("\n… and more, which is left out\n" if self._more else "")


def attempt(action: Callable[[], Any], tape: Tape) -> tuple[Any, BaseException | None]:
    """What `action` returns, or what it raises; it prints on `tape`."""
    saved, depth = dict(_BUILTINS), sys.getrecursionlimit()
    # What a program sets for all of NumPy ends with it.
    numpy = np.errstate(all="ignore"), np.printoptions()
    with warnings.catch_warnings(), numpy[0], numpy[1], redirect_stdout(tape), redirect_stderr(tape):
        warnings.simplefilter("ignore")
        try:
            try:
                sys.setrecursionlimit(MOST_CALLS or depth)
                return action(), None
            finally:
                _BUILTINS.update(saved)  # before anything else: not even `except` works without them
                sys.setrecursionlimit(depth)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 (sys.exit too is an answer of the program)
            return None, error


def _no_input(_prompt: object = "") -> str:
    raise RuntimeError("nobody can type an input here; write the value into the code")


def execute(*sources: str, name: str = YOURS) -> dict[str, Any]:
    """The names that programs define, run one after the other in one namespace of their own."""
    names: dict[str, Any] = {"__name__": "__main__", "__builtins__": {**_BUILTINS, "input": _no_input}}
    for source in sources:
        exec(compile(source, name, "exec", dont_inherit=True), names)  # noqa: S102
    return names


def frames_of(error: BaseException) -> Iterator[tuple[int, str]]:
    """Line and function of each step in the learner's own code."""
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename == YOURS:
            yield trace.tb_lineno, code.co_name
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.filename == YOURS:
        yield error.lineno or 1, "<module>"


def line_of(error: BaseException) -> int | None:
    """The last line of the learner's own code that was reached."""
    return next((line for line, _ in reversed(list(frames_of(error)))), None)


def message_of(error: BaseException) -> str:
    """What an exception says, without its type."""
    if isinstance(error, SystemExit):
        return "the program ended itself; leave exit out"
    try:
        return str(error.msg if isinstance(error, SyntaxError) else error)
    except Exception:  # noqa: BLE001 (the learner may have written this exception)
        return ""


def told(error: BaseException, source: str) -> dict[str, Any]:
    """An exception as JSON knows it: its type, message and line, and a traceback of the learner's lines alone."""
    lines, frames = source.splitlines(), list(frames_of(error))
    steps = []
    for line, function in frames:
        where = "" if function == "<module>" else f", in {function}"
        code = lines[line - 1].strip() if 0 < line <= len(lines) else ""
        steps.append(f"line {line}{where}\n    {code}")
    if len(steps) > MOST_FRAMES:
        half = MOST_FRAMES // 2
        steps[half:-half] = [f"… {len(steps) - MOST_FRAMES} more like these …"]
    name, message = type(error).__name__, message_of(error)
    summary = f"{name}: {message}" if message else name
    return {"type": name, "message": message, "line": line_of(error), "traceback": "\n".join([*steps, summary])}
