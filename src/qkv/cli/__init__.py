"""The command line, one file for each verb: `qkv look`."""

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(words: Sequence[str] | None = None) -> int:
    """Run one command, by default that of the terminal; returns its exit code.

    0: done. 1: could not be done, and one line on stderr says why. 2: asked for wrongly. 130: stopped by Ctrl-C.
    """
    try:
        from qkv.cli import _app
    except ModuleNotFoundError as error:
        if error.name not in {"typer", "rich"}:
            raise
        print(f"qkv: the command line needs {error.name}: pip install 'qkv[cli]'", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return _app.run(sys.argv[1:] if words is None else list(words))
