"""What `qkv look` saw, as lines for a terminal or as one JSON object."""

import json
from itertools import groupby
from typing import Any

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.text import Text

from qkv import draw
from qkv._typing import Array
from qkv.cli._seen import Seen
from qkv.cli._terminal import NARROWEST, Colour, bold, quote, wrap
from qkv.cli.patterns import FEWEST, PATTERNS, Finding

LISTED = 3  # heads of one pattern that are listed
LAST = 50  # columns of the table of heads before its last one
CAVEAT = "Weights are not an explanation: they say where, not what comes of it."
UNKNOWN = "Value-weighted: not known here, for something else happens between the heads and W_O."
VALUE_WEIGHTED = "Value-weighted: weight · ‖v W_O‖ as a share, how far a key can move the output."


def title(seen: Seen) -> str:
    """What the map is of."""
    found = seen.survey.of(seen.layer, seen.head)
    return f"{seen.model.name}, head ({seen.layer}, {seen.head})" + (f": {found.pattern.name}" if found else "")


def drawn(seen: Seen) -> dict[str, Any]:
    """What every drawing of the map is told beside weights and labels; its colours start at 0."""
    return {"visible": seen.visible, "title": title(seen), "limits": (0.0, float(seen.weights.max()))}


def report(seen: Seen, colour: Colour, width: int) -> str:
    """Everything, for a terminal of this width."""
    parts = [
        _heads(seen, colour, width),
        _map(seen, colour, width),
        _top_keys(seen, colour, width),
        f"{wrap(CAVEAT, width)}\n{wrap(VALUE_WEIGHTED if seen.value_weighted is not None else UNKNOWN, width)}",
    ]
    return "\n\n".join(parts)


def _heads(seen: Seen, colour: Colour, width: int) -> str:
    """The heads worth looking at, a line each, with > before the one that is shown."""
    model, findings, too_few = seen.model, seen.survey.findings, seen.survey.too_few
    tokens = f"{len(seen.tokens)} token{'s' if len(seen.tokens) > 1 else ''}"
    size = f"{model.n_layers} layers of {model.n_heads} heads, {tokens}"
    lines = [
        bold("Heads worth looking at", colour),
        wrap(f"{model.name}: {size}. A head is (layer, head), from 0.", width),
        "",
    ]
    if findings:
        lines.append(_fit("  head     pattern         weight  value-weighted  looks at", width))
    for _, group in groupby(findings, key=lambda each: each.pattern):
        alike = list(group)
        listed = [each for place, each in enumerate(alike) if place < LISTED or _shown(each, seen)]
        lines += [_fit(_head(each, seen), width) for each in listed]
        if len(alike) > len(listed):
            lines.append(f"           and {len(alike) - len(listed)} more")
    if not findings:
        why = "Too short a text to tell heads apart" if len(too_few) == len(PATTERNS) else "No head stands out"
        lines.append(f"{why}; the most decided one is shown.")
    elif too_few:
        few = ", ".join(f"{name} ({queries} of {FEWEST})" for name, queries in too_few.items())
        lines.append(wrap(f"Not enough queries in this text to tell: {few}.", width))
    return "\n".join(lines)


def _shown(found: Finding, seen: Seen) -> bool:
    return (found.layer, found.head) == (seen.layer, seen.head)


def _head(found: Finding, seen: Seen) -> str:
    mark = ">" if _shown(found, seen) else " "
    head = f"({found.layer}, {found.head})"
    key = "" if found.key is None else quote(seen.tokens[found.key])
    share = "–" if found.value_weighted is None else f"{found.value_weighted:.2f}"
    return (
        f"{mark} {head:<8} {found.pattern.name:<14} {found.weight:7.2f}{share:>16}  "
        f"{found.pattern.looks_at.format(key=key)}"
    )


def _fit(line: str, width: int) -> str:
    """A line of the table cut to the width, without its last column where too little of that would be left."""
    if cell_len(line) <= width:
        return line
    return line[:LAST].rstrip() if width < LAST + 12 else set_cell_size(line, width - 1).rstrip() + "…"


def _map(seen: Seen, colour: Colour, width: int) -> str:
    return draw.text(seen.weights, seen.tokens, seen.tokens, **drawn(seen), colour=colour, width=width)


def _top_keys(seen: Seen, colour: Colour, width: int) -> str:
    """The keys of the query's largest weights: weight at the left, value-weighted share at the right."""
    names, weights, shares = _largest(seen)
    # One list, so that all bars have one scale; the names of the second half are cut off again.
    both, labels = np.round([*weights, *shares], 3), [*names, *["-"] * len(names)]
    lines = draw.bars(both, labels, colour=colour, width=max(NARROWEST, width // 2), full=1.0).split("\n")
    left, right = lines[: len(names)], [line.lstrip()[2:] for line in lines[len(names) :]]
    start = lines[len(names)].index("-") + 2
    side = max(start + len("weight"), *map(_cells, left)) + 2
    if side + max(map(_cells, right)) > width:
        right = [line.split()[0] for line in right]
    how = "" if seen.asked else ", the most decided; --query shows another"
    return "\n".join(
        [
            bold(wrap(f"Where query {seen.query} {quote(seen.tokens[seen.query])} looks{how}", width), colour),
            f"{'':{start}}{'weight':{side - start}}value-weighted",
            *(a + " " * (side - _cells(a)) + b for a, b in zip(left, right, strict=True)),
        ]
    )


def _largest(seen: Seen) -> tuple[list[str], list[float], list[float]]:
    """The top keys by name, with weight and value-weighted share, and the other keys in one."""
    names = [f"{key} {seen.tokens[key]}" for key in seen.top]
    moved = np.full(len(seen.row), np.nan) if seen.value_weighted is None else seen.value_weighted
    weights, shares = seen.row[seen.top].tolist(), moved[seen.top].tolist()
    if rest := int(seen.visible[seen.query].sum()) - len(names):
        names.append(f"{rest} other{'s' if rest > 1 else ''}")
        weights.append(_rest(seen.row, weights))
        shares.append(_rest(moved, shares))
    return names, weights, shares


def _rest(row: Array, largest: list[float]) -> float:
    """The share of the keys that are not listed; rounding never makes it negative."""
    return float(np.maximum(0.0, row.sum() - sum(largest)))


def _cells(line: str) -> int:
    """Columns of a line, its colours not counted."""
    return Text.from_ansi(line).cell_len


def as_json(seen: Seen, out: str | None) -> str:
    """One JSON object; every number as it was computed."""
    return json.dumps(
        {
            "model": seen.model.name,
            "text": seen.text,
            "tokens": seen.tokens,
            "heads": [_finding(each) for each in seen.survey.findings],
            "too_few_queries": seen.survey.too_few,
            "layer": seen.layer,
            "head": seen.head,
            "query": {"index": seen.query, "token": seen.tokens[seen.query]},
            "weights": seen.row.tolist(),
            "value_weighted": None if seen.value_weighted is None else seen.value_weighted.tolist(),
            "top": [_key(seen, key) for key in seen.top],
            "note": f"{CAVEAT} {VALUE_WEIGHTED}",
            "out": out,
        },
        allow_nan=False,
    )


def _finding(found: Finding) -> dict[str, object]:
    return {
        "layer": found.layer,
        "head": found.head,
        "pattern": found.pattern.name,
        "weight": found.weight,
        "value_weighted": found.value_weighted,
        "even": found.even,
        "key": found.key,
    }


def _key(seen: Seen, key: int) -> dict[str, object]:
    return {
        "index": key,
        "token": seen.tokens[key],
        "weight": float(seen.row[key]),
        "value_weighted": None if seen.value_weighted is None else float(seen.value_weighted[key]),
    }
