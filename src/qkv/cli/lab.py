"""`qkv lab`: read how attention works, try it and prove it, in a browser."""

from pathlib import Path
from typing import Annotated

import typer

from qkv.cli import _terminal
from qkv.cli._errors import Failure, Usage

EXAMPLES = """\b
Examples:
  qkv lab
  qkv lab --port 9000 --no-browser
  qkv lab --export public/lab
"""
PARTS = {"qkv_lab", "starlette", "uvicorn"}  # what qkv[lab] installs


Port = Annotated[int | None, typer.Option(metavar="N", min=0, max=65535, help="Port on this machine; 0 is any.")]
Browser = Annotated[bool, typer.Option("--browser/--no-browser", help="Open the browser there.")]
Folder = Annotated[Path | None, typer.Option(metavar="DIR", help="Write the lab as static files instead.")]


def lab(port: Port = None, browser: Browser = True, export: Folder = None) -> None:
    """Open the lab in the browser: an essay with live figures, lessons that check your code, and cards.

    It runs on this machine alone, at 127.0.0.1, and asks nothing of the network. With --export it is written as files
    that any web server can hand to a class.
    """
    if export is not None and port is not None:
        raise Usage("--port and --export exclude each other: an export starts no server")
    try:
        import qkv_lab.export
        import qkv_lab.serve
    except ModuleNotFoundError as error:
        name = str(error.name).partition(".")[0]
        if name not in PARTS:
            raise
        raise Failure(f"the lab needs {name}: pip install 'qkv[lab]'; in a checkout: make lab") from error
    if export is None:
        qkv_lab.serve.serve(qkv_lab.serve.PORT if port is None else port, _terminal.write, browser=browser)
        return
    try:
        written = qkv_lab.export.export(export)
    except OSError as error:
        raise Failure(f"cannot write to {export}: {error.strerror}") from error
    _terminal.write(
        f"Written: {written.folder}, {written.n_files} files, {written.n_bytes / 1e6:.1f} MB, with maps of "
        f"{' and '.join(written.maps)}.\n"
        f"Any web server can hand it out: python -m http.server --directory {written.folder}\n"
        "There maps are the recorded ones, and the stop button ends Python and starts another."
    )
