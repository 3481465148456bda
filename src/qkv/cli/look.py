"""`qkv look`: what the heads of a trained model attend to on a text."""

from pathlib import Path
from typing import Annotated

import typer

from qkv import draw, models
from qkv.cli import _report, _source, _terminal
from qkv.cli._bar import bar
from qkv.cli._errors import Failure, Usage
from qkv.cli._seen import Seen, see

PICTURES = (".png", ".svg")
EXAMPLES = """\b
Examples:
  qkv look
  qkv look "The cat sat on the mat because it was tired." --layer 5 --head 11 --query it
  qkv look --model induction --out map.png
  qkv look "Paris is in France, and Rome is in" --model ~/models/smollm2
  echo "Time flies like an arrow." | qkv look - --json
"""


def look(
    context: typer.Context,
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="What the model reads; - is stdin.", show_default=False)
    ] = None,
    model: Annotated[str, typer.Option(metavar="NAME|DIR", help=_source.HELP)] = models.NAMES[0],
    layer: Annotated[int | None, typer.Option(metavar="N", help="Layer of the head to show, from 0.")] = None,
    head: Annotated[int | None, typer.Option(metavar="N", help="Head in that layer, from 0.")] = None,
    query: Annotated[str | None, typer.Option(metavar="TOKEN", help="Query to show: a token or its index.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the map as a .png or .svg file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Show what the heads of a trained model attend to.

    Prints the heads worth looking at and why, the map of one of them, and the keys that one query looks at, each
    with its weight and, beside it, its value-weighted share.
    """
    if context.args:
        raise Usage("TEXT is one argument: put it between quotes")
    if out is not None and out.suffix.lower() not in PICTURES:
        raise Usage(f"--out {out} must end in {' or '.join(PICTURES)}")
    given = None if text is None else _source.read(text)
    with bar(f"loading {model}") as shown:
        chosen = _source.load(model)
        shown.step(f"layers of {chosen.name}", chosen.n_layers)
        seen = see(chosen, chosen.default_text if given is None else given, layer, head, query, shown.advance)
    if out is not None:
        _save(out, seen)
    if as_json:
        _terminal.write(_report.as_json(seen, None if out is None else str(out)))
        return
    page = _report.report(seen, _terminal.stdout_colour(), _terminal.stdout_width())
    _terminal.write(page if out is None else f"{page}\n\nWritten: {out}")


def _save(path: Path, seen: Seen) -> None:
    said = {**_report.drawn(seen), "subtitle": _report.CAVEAT}
    if path.suffix.lower() == ".svg":
        picture = draw.svg(seen.weights, seen.tokens, seen.tokens, **said).encode()
    else:
        picture = draw.png(seen.weights, seen.tokens, seen.tokens, **said)
    try:
        path.write_bytes(picture)
    except OSError as error:
        raise Failure(f"cannot write {path}: {error.strerror}; --out FILE names another place") from error
