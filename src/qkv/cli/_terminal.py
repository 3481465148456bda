"""The terminal on the other side: its colours, its width, and words written to it."""

import os
import shutil
import sys
import textwrap
from collections.abc import Mapping
from typing import Literal, TypeAlias

from qkv.cli._errors import Failure

Colour: TypeAlias = Literal["truecolor", "256", "none"]

NARROWEST = 40  # the least that the drawings take
WITHOUT_COLOUR = {"", "dumb", "unknown", "vt100", "vt102", "vt220"}


def colour(environment: Mapping[str, str], *, is_terminal: bool) -> Colour:
    """The colours to send: those of the terminal; none into a file or pipe, or where NO_COLOR is set.

    FORCE_COLOR asks for them anyway. A variable that is set to nothing counts as not set (no-color.org).
    """
    if environment.get("NO_COLOR"):
        return "none"
    forced = environment.get("FORCE_COLOR", "") not in {"", "0"}
    term = environment.get("TERM", "").lower()
    if not forced and (not is_terminal or term in WITHOUT_COLOUR):
        return "none"
    if environment.get("COLORTERM", "").lower() in {"truecolor", "24bit"} or term.endswith("-direct"):
        return "truecolor"
    return "256"


def stdout_colour() -> Colour:
    """The colours of this process's stdout."""
    return colour(os.environ, is_terminal=sys.stdout.isatty())


def stdout_width() -> int:
    """Columns of this process's stdout: COLUMNS, else the terminal's, else 80."""
    return max(NARROWEST, shutil.get_terminal_size().columns)


def bold(text: str, how: Colour) -> str:
    """A heading, set apart where the terminal can."""
    return text if how == "none" else f"\x1b[1m{text}\x1b[0m"


def wrap(text: str, width: int, indent: str = "") -> str:
    """Prose broken between words; `indent` stands before every line but the first."""
    return textwrap.fill(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def quote(token: str) -> str:
    """A token between quotes, with nothing in it that a terminal would obey."""
    return repr(token)


def write(text: str) -> None:
    """Print to stdout; a reader that has seen enough, like `head`, ends it without a word."""
    encoding = sys.stdout.encoding or "utf-8"
    try:
        print(text.encode(encoding, errors="replace").decode(encoding), flush=True)
    except OSError as error:
        # What is left in the buffer would fail again, and loudly, when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise Failure(f"cannot write to stdout: {error.strerror}") from error
