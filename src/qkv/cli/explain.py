"""`qkv explain`: one weight taken apart, from the channels of q·k to the softmax."""

from typing import Annotated

import typer

from qkv import models
from qkv.cli import _cell, _stages, _terminal
from qkv.cli._cell import Cell, Wanted
from qkv.cli._errors import Usage
from qkv.cli._source import built_in, read
from qkv.cli.toy import check_toy

NAMES = ("toy", *models.NAMES)
EXAMPLES = """\b
Examples:
  qkv explain
  qkv explain --query sat --key cat --heads 1 --temperature 0.5
  qkv explain "The cat sat on the mat because it was tired." --model minilm --query it --key cat
  qkv explain --model induction --layer 1 --json
"""


def explain(
    context: typer.Context,
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="What a trained model reads; - is stdin.", show_default=False)
    ] = None,
    model: Annotated[str, typer.Option(metavar="NAME", help=f"{', '.join(NAMES[:-1])} or {NAMES[-1]}.")] = NAMES[0],
    layer: Annotated[int | None, typer.Option(metavar="N", help="Layer, from 0.")] = None,
    head: Annotated[int | None, typer.Option(metavar="N", help="Head in that layer, from 0.")] = None,
    query: Annotated[str | None, typer.Option(metavar="TOKEN", help="Who looks: a token or its index.")] = None,
    key: Annotated[str | None, typer.Option(metavar="TOKEN", help="At whom: a token or its index.")] = None,
    heads: Annotated[
        int | None, typer.Option(metavar="N", help="Heads of the toy: 1, 2, 4 or 8.  [default: 4]", show_default=False)
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(metavar="T", help="Of the toy, above 0.  [default: 1]", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Take one weight apart, channel by channel.

    Prints what each channel adds to q·k, then scale, temperature and softmax, and the row with each value-weighted
    share beside its weight. Whatever is not given is chosen, so that the weight is the largest of one token on another.
    """
    if context.args:
        raise Usage("TEXT is one argument: put it between quotes")
    wanted = Wanted(layer, head, query, key)
    cell = (
        _toy(text, wanted, heads, temperature) if model == "toy" else _trained(model, text, wanted, heads, temperature)
    )
    if as_json:
        _terminal.write(_stages.as_json(cell))
    else:
        _terminal.write(_stages.page(cell, _terminal.stdout_colour(), _terminal.stdout_width()))


def _toy(text: str | None, wanted: Wanted, heads: int | None, temperature: float | None) -> Cell:
    if text is not None:
        raise Usage(f"TEXT is for a trained model; add --model {' or '.join(models.NAMES)}")
    if wanted.layer not in {None, 0}:
        raise Usage(f"--layer is {wanted.layer}, but the toy has layer 0 only")
    n_heads, warmth = 4 if heads is None else heads, 1.0 if temperature is None else temperature
    check_toy(n_heads, warmth)
    return _cell.of_toy(n_heads, warmth, wanted)


def _trained(name: str, text: str | None, wanted: Wanted, heads: int | None, temperature: float | None) -> Cell:
    if name not in NAMES:
        raise Usage(f"--model must be {', '.join(NAMES[:-1])} or {NAMES[-1]}, got {name!r}")
    for option, given in (("heads", heads), ("temperature", temperature)):
        if given is not None:
            raise Usage(f"--{option} is for the toy; {name} has its own")
    model = built_in(name)
    return _cell.of_model(model, model.default_text if text is None else read(text), wanted)
