"""All heads of a model in numbers, as a table for a terminal or as one JSON object."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from qkv.cli._report import CAVEAT, VALUE_WEIGHTED
from qkv.cli._table import GAP, table
from qkv.cli._terminal import Colour, bold, wrap
from qkv.models import Reader
from qkv.tracing import FIGURES, Figure, Head

# What is left out last where the terminal is narrow.
FIRST = [
    "entropy", "peak", "sink", "previous", "induction", "local", "distance", "normalised", "self", "next", "duplicate",
]  # fmt: skip
BY_VALUE = "value-weighted"


@dataclass(frozen=True, eq=False)
class Ranking:
    """The heads of a model over a text, in order.

    sort: the figure that they are sorted by, largest first. layer: the only one that was looked at, if any.
    """

    model: Reader
    text: str
    tokens: list[str]
    heads: tuple[Head, ...]
    sort: str | None
    layer: int | None

    def known(self) -> list[Figure]:
        """The figures that the text can show, the one that is sorted by first."""
        shown = [each for each in FIGURES if any(head.weight[each.name] is not None for head in self.heads)]
        return sorted(shown, key=lambda each: (each.name != self.sort, FIRST.index(each.name)))


def page(ranking: Ranking, shown: Sequence[Head], colour: Colour, width: int) -> str:
    """Everything, for a terminal of this width."""
    columns, left_out = _columns(ranking, shown, width)
    rows = [list(cells) for cells in zip(*columns.values(), strict=True)]
    head, *body = table(list(columns), rows).split("\n")
    notes = [_said(figure) for figure in ranking.known() if figure.name in columns]
    lines = [
        bold(wrap(_title(ranking, shown), width), colour),
        wrap(f"{_size(ranking)} A head is (layer, head), from 0; a number is a mean over the queries.", width),
        "",
        bold(head, colour),
        *body,
        "",
        *(wrap(note, width, "  ") for note in notes),
    ]
    if left_out:
        lines.append(wrap(f"No room here for {', '.join(left_out)}; a wider terminal or --json has them.", width))
    if unknown := [each.name for each in FIGURES if each not in ranking.known()]:
        lines.append(wrap(f"Not enough queries in this text to tell: {', '.join(unknown)}.", width))
    closing = [CAVEAT, VALUE_WEIGHTED] if BY_VALUE in columns else [CAVEAT]
    return "\n".join([*lines, "", *(wrap(line, width) for line in closing)])


def _columns(ranking: Ranking, shown: Sequence[Head], width: int) -> tuple[dict[str, list[str]], list[str]]:
    """The cells of each column by its name, as many columns as there is room for, and the names of the others."""
    columns = {"head": [f"({each.layer}, {each.head})" for each in shown]}
    left_out = []
    for figure in ranking.known():
        columns[figure.name] = [_number(each.weight[figure.name]) for each in shown]
        if figure.name == ranking.sort:
            columns[BY_VALUE] = [_number(each.value_weighted[figure.name]) for each in shown]
        elif _width(columns) > width:
            del columns[figure.name]
            left_out.append(figure.name)
    return columns, left_out


def _width(columns: dict[str, list[str]]) -> int:
    return sum(max(map(cell_len, [name, *cells])) + GAP for name, cells in columns.items()) - GAP


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _title(ranking: Ranking, shown: Sequence[Head]) -> str:
    count = "All heads" if len(shown) == len(ranking.heads) else f"{len(shown)} of {len(ranking.heads)} heads"
    order = "by layer" if ranking.sort is None else f"by {ranking.sort}, largest first"
    where = "" if ranking.layer is None else f" of layer {ranking.layer}"
    return f"{count}{where} of {ranking.model.name}, {order}"


def _size(ranking: Ranking) -> str:
    tokens = f"{len(ranking.tokens)} token{'s' if len(ranking.tokens) > 1 else ''}"
    return f"{ranking.model.n_layers} layers of {ranking.model.n_heads} heads, {tokens}."


def _said(figure: Figure) -> str:
    unit = "" if figure.unit == "share" else f", {figure.unit}"
    return f"{figure.name}: {figure.says}{unit}"


def as_json(ranking: Ranking, shown: Sequence[Head]) -> str:
    """One JSON object; every number as it was computed, null where the text cannot show it."""
    return json.dumps(
        {
            "model": ranking.model.name,
            "text": ranking.text,
            "tokens": ranking.tokens,
            "sort": ranking.sort,
            "figures": {each.name: {"unit": each.unit, "means": each.says} for each in FIGURES},
            "heads": [
                {"layer": each.layer, "head": each.head, **each.weight, "value_weighted": each.value_weighted}
                for each in shown
            ],
            "note": f"{CAVEAT} {VALUE_WEIGHTED}",
        },
        allow_nan=False,
    )
