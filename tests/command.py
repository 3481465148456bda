"""The command line, run inside this process: what it prints, and how it ends."""

import contextlib
import io
import json
import os
import sys
from importlib.util import find_spec
from typing import Any
from unittest import mock

import pytest

from qkv.cli import main
from qkv.models import minilm

COMMAND = [sys.executable, "-c", "import sys; from qkv.cli import main; sys.exit(main())"]
CAT = "The cat sat on the mat because it was tired."

needs_minilm = pytest.mark.skipif(
    find_spec(minilm.PACKAGE) is None, reason="the package with MiniLM's weights is not installed"
)
with_minilm = pytest.param("minilm", marks=needs_minilm)


def run(*words: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command line; without colours and 80 columns wide."""
    out, err = io.StringIO(), io.StringIO()
    plain = mock.patch.dict(os.environ, {"NO_COLOR": "1", "COLUMNS": "80"})
    with plain, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    return code, out.getvalue(), err.getvalue()


def page(*words: str) -> str:
    """What `qkv look` prints, for words that work."""
    code, out, err = run("look", *words)
    assert (code, err) == (0, "")
    return out


def seen(*words: str) -> dict[str, Any]:
    """What `qkv look --json` says, for words that work."""
    return dict(json.loads(page(*words, "--json")))


def refused(words: list[str], code: int, *parts: str) -> None:
    """Nothing on stdout, this exit code, and one line on stderr that says all of this."""
    got, out, err = run(*words)
    assert (got, out) == (code, "")
    assert err.count("\n") == 1
    missing = [part for part in parts if part not in err]
    assert not missing, f"{missing} not in {err!r}"
