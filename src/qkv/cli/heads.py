"""`qkv heads`: every head of a trained model in numbers."""

from collections.abc import Callable
from typing import Annotated

import typer

from qkv import models
from qkv.cli import _ranking, _source, _terminal
from qkv.cli._bar import bar
from qkv.cli._errors import Failure, Usage
from qkv.cli._ranking import Ranking
from qkv.models import Reader
from qkv.tracing import FEWEST, FIGURES, table

NAMES = tuple(figure.name for figure in FIGURES)
EXAMPLES = """\b
Examples:
  qkv heads
  qkv heads --sort previous --top 5
  qkv heads --model induction --sort induction
  qkv heads "The cat sat on the mat because it was tired." --layer 5 --json
"""


def heads(
    context: typer.Context,
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="What the model reads; - is stdin.", show_default=False)
    ] = None,
    model: Annotated[str, typer.Option(metavar="NAME|DIR", help=_source.HELP)] = models.NAMES[0],
    sort: Annotated[str | None, typer.Option(metavar="FIGURE", help=f"Largest first: {', '.join(NAMES)}.")] = None,
    layer: Annotated[int | None, typer.Option(metavar="N", help="Only this layer, from 0.")] = None,
    top: Annotated[int | None, typer.Option(metavar="N", min=1, help="Only the first N heads.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Show every head of a trained model in numbers.

    Each number is a mean over the queries that can show it. Sorted by one of them, the same of the value-weighted map
    stands beside it.
    """
    if context.args:
        raise Usage("TEXT is one argument: put it between quotes")
    if sort is not None and sort not in NAMES:
        raise Usage(f"--sort must be one of {', '.join(NAMES)}, got {_terminal.quote(sort)}")
    given = None if text is None else _source.read(text)
    with bar(f"loading {model}") as shown:
        chosen = _source.load(model)
        if layer is not None and not 0 <= layer < chosen.n_layers:
            raise Usage(f"--layer is {layer}, but {chosen.name} has layers 0 to {chosen.n_layers - 1}")
        words = chosen.default_text if given is None else given
        count = chosen.n_heads * (chosen.n_layers if layer is None else 1)
        shown.step(f"heads of {chosen.name}", count)
        ranking = _rank(chosen, words, sort, layer, shown.advance)
    first = ranking.heads[:top]
    if as_json:
        _terminal.write(_ranking.as_json(ranking, first))
    else:
        _terminal.write(_ranking.page(ranking, first, _terminal.stdout_colour(), _terminal.stdout_width()))


def _rank(model: Reader, text: str, sort: str | None, layer: int | None, advance: Callable[[], None]) -> Ranking:
    """Run the model over the text, and take every head's figures; `advance` is called after each head."""
    ids, tokens = _source.tokens(model, text)
    found = []
    for head in table(model.run(ids), ids, model.own(ids), layers=None if layer is None else [layer]):
        found.append(head)
        advance()
    if not any(value is not None for head in found for value in head.weight.values()):
        raise Failure(f"TEXT has {len(tokens)} tokens, too few to tell heads apart; give at least {FEWEST}")
    if sort is not None:
        if any(head.weight[sort] is None for head in found):
            raise Failure(f"TEXT cannot tell {sort}: fewer queries can show it than a mean needs")
        found.sort(key=lambda head: -(head.weight[sort] or 0.0))
    return Ranking(model, text, tokens, tuple(found), sort, layer)
