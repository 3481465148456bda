"""`qkv toy`: the eight-token layer, its heads beside the full width."""

import json
import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import typer

from qkv import formula, toy as lesson
from qkv._typing import Array
from qkv.cli import _terminal
from qkv.cli._errors import Usage
from qkv.cli._maps import side_by_side
from qkv.cli._seen import find_query
from qkv.cli._table import GAP, table
from qkv.cli._terminal import Colour, bold, quote, wrap

EXAMPLES = """\b
Examples:
  qkv toy
  qkv toy --heads 1
  qkv toy --heads 8 --query sat
  qkv toy --temperature 0.2
  qkv toy --json
"""
TOKENS = list(lesson.TOKENS)
NOTE = (
    "Built by hand, so every weight has a reason, and qkv explain names it; a row that asks nothing in a slice is "
    "even. Weights of trained heads say where they look, not why."
)


def toy(
    heads: Annotated[int, typer.Option(metavar="N", help="1, 2, 4 or 8 heads.")] = 4,
    temperature: Annotated[float, typer.Option(metavar="T", help="Divides the scores / √d_k; above 0.")] = 1.0,
    query: Annotated[str, typer.Option(metavar="TOKEN", help="Query to read row by row: a token or its index.")] = "it",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Show the heads of a small layer built by hand.

    Over "the cat sat on the mat because it" it prints the map of each head beside that of one head of full width, and
    where one query looks in each of them.
    """
    check_toy(heads, temperature)
    seen = _see(heads, temperature, find_query(query, TOKENS))
    if as_json:
        _terminal.write(_as_json(seen))
    else:
        _terminal.write(_page(seen, _terminal.stdout_colour(), _terminal.stdout_width()))


def check_toy(heads: int, temperature: float) -> None:
    """Refuse what the toy layer has no map for."""
    if heads not in lesson.HEADS:
        raise Usage(f"--heads must be {', '.join(map(str, lesson.HEADS[:-1]))} or {lesson.HEADS[-1]}, got {heads}")
    if not 0 < temperature < math.inf:
        raise Usage(f"--temperature must be finite and above 0, got {temperature:g}")


@dataclass(frozen=True, eq=False)
class _Seen:
    """The maps (n_heads, 8, 8) and (8, 8), and q·k of each head and of the full width over the query's row."""

    temperature: float
    query: int
    heads: Array
    full: Array
    dots: Array  # (n_heads, 8)
    full_dots: Array  # (8,)

    @property
    def n_heads(self) -> int:
        return len(self.heads)

    @property
    def d_k(self) -> int:
        return len(lesson.QUESTIONS) // self.n_heads

    @property
    def top(self) -> int:
        """The key that the full width looks at most."""
        return int(self.full[self.query].argmax())


def _see(n_heads: int, temperature: float, query: int) -> _Seen:
    layer = lesson.layer(n_heads)
    q, k, _ = layer.project(lesson.x())
    dots = formula.dot_score(q[:, query : query + 1], k)[:, 0]
    full_dots = formula.dot_score(formula.merge(q)[query : query + 1], formula.merge(k))[0]
    heads, full = (np.asarray(lesson.map(each, temperature)) for each in (n_heads, 1))
    return _Seen(temperature, query, heads, full[0], dots, full_dots)


def _page(seen: _Seen, colour: Colour, width: int) -> str:
    maps, titles = [seen.full], [f"full width, d_k = {len(lesson.QUESTIONS)}"]
    how = "1 head of full width"
    if seen.n_heads > 1:
        maps += list(seen.heads)
        titles += [f"head {at}: {name}" for at, name in enumerate(lesson.names(seen.n_heads))]
        how = f"{seen.n_heads} heads of d_k = {seen.d_k}, beside 1 of full width"
    return "\n\n".join(
        [
            f"{bold('The toy layer', colour)}\n{wrap(f'{how}; temperature {seen.temperature:g}', width)}",
            side_by_side(maps, titles, TOKENS, colour, width),
            _row(seen, colour, width),
            wrap(NOTE, width),
        ]
    )


def _row(seen: _Seen, colour: Colour, width: int) -> str:
    """Where the query looks, and its q·k with the key that the full width looks at most."""
    names = ["full", *map(str, range(seen.n_heads))] if seen.n_heads > 1 else ["full"]
    weights = np.stack([seen.full, *seen.heads])[:, seen.query]  # (1 + n_heads, 8)
    keys = [f"{at} {token}" for at, token in enumerate(TOKENS)]
    fit = max(2, (width - max(map(len, keys))) // (GAP + len("0.000")))
    tables = []
    for start in range(0, len(names), fit):
        part = range(start, min(start + fit, len(names)))
        rows = [[key, *(f"{weights[at, j]:.3f}" for at in part)] for j, key in enumerate(keys)]
        plain = 2 if start == 0 else 1  # columns that are no head: the key, and the full width
        groups = {"": plain, "head": len(part) + 1 - plain} if len(names) > 1 else None
        tables.append(table(["key", *(names[at] for at in part)], rows, groups))
    query, key = quote(TOKENS[seen.query]), quote(TOKENS[seen.top])
    parts = " + ".join(f"{dot:g}" if dot >= 0 else f"(−{-dot:g})" for dot in seen.dots[:, seen.top])
    total = f"{seen.full_dots[seen.top]:g}"
    sums = f"{parts} = {total}" if seen.n_heads > 1 else total
    return "\n\n".join(
        [
            f"{bold(f'Where query {seen.query} {query} looks', colour)}\n{tables[0]}",
            *tables[1:],
            wrap(f"q·k of {query} and {key}, before any scale: {sums}", width),
        ]
    )


def _as_json(seen: _Seen) -> str:
    return json.dumps(
        {
            "tokens": TOKENS,
            "n_heads": seen.n_heads,
            "d_k": seen.d_k,
            "temperature": seen.temperature,
            "names": lesson.names(seen.n_heads),
            "weights": seen.heads.tolist(),
            "full": seen.full.tolist(),
            "query": {"index": seen.query, "token": TOKENS[seen.query]},
            "dots": seen.dots.tolist(),
            "full_dots": seen.full_dots.tolist(),
            "note": NOTE,
        },
        allow_nan=False,
    )
