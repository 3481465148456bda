"""One weight taken apart, as lines for a terminal or as one JSON object."""

import dataclasses
import json
import math

import numpy as np

from qkv import draw
from qkv._typing import Array
from qkv.cli._cell import Cell
from qkv.cli._report import CAVEAT, VALUE_WEIGHTED
from qkv.cli._seen import LEAST
from qkv.cli._table import table
from qkv.cli._terminal import Colour, bold, quote, wrap

N_CHANNELS = 8  # channels that are listed where they have no names
N_KEYS = 8  # keys of the row that are listed


def page(cell: Cell, colour: Colour, width: int) -> str:
    """Everything about the weight, for a terminal of this width."""
    i, j = cell.stages.query, cell.stages.key
    named = f"toy, head {cell.head} of {cell.n_heads}: {cell.name}"
    who = named if cell.name else f"{cell.model}, head ({cell.layer}, {cell.head})"
    title = f"Query {i} {quote(cell.tokens[i])} on key {j} {quote(cell.tokens[j])}: weight {cell.stages.weight:.4f}"
    return "\n\n".join(
        [
            f"{bold(title, colour)}\n{who}",
            _channels(cell),
            _steps(cell),
            _row(cell, colour, width),
            f"{wrap(CAVEAT, width)}\n{wrap(VALUE_WEIGHTED, width)}",
        ]
    )


def _channels(cell: Cell) -> str:
    """What each channel adds to q·k: all of them where they have names, else the largest."""
    products = cell.q.astype(np.float64) * cell.k.astype(np.float64)
    order = range(len(products))
    if not cell.channels:
        order = np.argsort(-np.abs(products), kind="stable")[:N_CHANNELS].tolist()
    names = cell.channels or [f"channel {c}" for c in range(len(products))]
    rows = [[names[c], _number(cell.q[c]), "×", _number(cell.k[c]), "=", _number(products[c])] for c in order]
    if rest := len(products) - len(rows):
        left = products.sum() - products[list(order)].sum()
        rows.append([f"{rest} others", "", "", "", "", _number(left)])
    rows.append(["q·k", "", "", "", "=", _number(cell.stages.dot)])
    return table(["", "q", "", "k", "", "q·k"], rows)


def _steps(cell: Cell) -> str:
    """From q·k to the weight, a stage a line."""
    at, d_k = cell.stages, len(cell.q)
    root = math.isclose(at.scale * math.sqrt(d_k), 1, rel_tol=1e-6)
    steps = [
        ("× scale", at.dot * at.scale, f"1/√d_k = 1/√{d_k}" if root else _number(at.scale)),
        ("÷ temperature", at.raw, _number(at.temperature)),
    ]
    if at.softcap is not None:
        steps.append(("softcap", at.capped, _number(at.softcap)))
    if at.bias:
        steps.append(("+ bias", at.capped + at.bias, _number(at.bias)))
    if not at.visible:
        steps.append(("mask", -math.inf, "the query may not see this key"))
    seen = int(cell.visible.sum())
    steps += [
        ("lse", at.lse, f"log Σ exp(score) over the {seen} key{'s' if seen > 1 else ''} that the query sees"),
        ("softmax", at.weight, f"exp({_number(at.biased)} − {_number(at.lse)})"),
    ]
    wide = max(len(name) for name, _, _ in steps)
    return "\n".join(f"{name:<{wide}}  {_number(value):>9}   {how}" for name, value, how in steps)


def _row(cell: Cell, colour: Colour, width: int) -> str:
    """The largest weights of the row and the one that is explained, with their value-weighted shares before them."""
    j, seen = cell.stages.key, int(cell.visible.sum())
    order = np.argsort(-cell.weights, kind="stable").tolist()
    listed = [key for key in order if cell.visible[key] and (cell.weights[key] >= LEAST or key == j)]
    if len(listed) > N_KEYS:
        listed = listed[:N_KEYS] if j in listed[:N_KEYS] else [*listed[: N_KEYS - 1], j]
    labels = [f"{key} {cell.tokens[key]}" for key in listed]
    weights, shares = cell.weights[listed].tolist(), cell.value_weighted[listed].tolist()
    if rest := seen - len(listed):
        labels.append(f"{rest} other{'s' if rest > 1 else ''}")
        weights.append(_rest(cell.weights, weights))
        shares.append(_rest(cell.value_weighted, shares))
    lines = draw.bars(np.round(weights, 3), labels, colour=colour, width=max(40, width - 20), full=1.0).split("\n")
    marks = [">" if key == j else " " for key in listed] + [" "]
    return "\n".join(
        [
            bold("The row: value-weighted share, key, weight", colour),
            *(f"{mark}{share:8.3f}  {line}" for mark, share, line in zip(marks, shares, lines, strict=False)),
        ]
    )


def _rest(row: Array, listed: list[float]) -> float:
    """What the listed keys leave over; rounding never makes it negative."""
    return max(0.0, float(row.sum()) - sum(listed))


def _number(value: float) -> str:
    """A number as it is where it is short, else with four digits; a minus as in the formulas."""
    text = "∞" if math.isinf(value) else f"{abs(value):.4g}"
    return f"−{text}" if value < 0 and text != "0" else text


def as_json(cell: Cell) -> str:
    """One JSON object; every number as it was computed, null for −∞."""
    i, j = cell.stages.query, cell.stages.key
    names = cell.channels or (None,) * len(cell.q)
    products = (cell.q.astype(np.float64) * cell.k.astype(np.float64)).tolist()
    stages = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in dataclasses.asdict(cell.stages).items()
    }
    return json.dumps(
        {
            "model": cell.model,
            "tokens": cell.tokens,
            "layer": cell.layer,
            "head": cell.head,
            "name": cell.name or None,
            "query": {"index": i, "token": cell.tokens[i]},
            "key": {"index": j, "token": cell.tokens[j]},
            "channels": [
                {"name": name, "q": q, "k": k, "product": product}
                for name, q, k, product in zip(names, cell.q.tolist(), cell.k.tolist(), products, strict=True)
            ],
            "stages": stages,
            "weights": cell.weights.tolist(),
            "value_weighted": cell.value_weighted.tolist(),
            "note": f"{CAVEAT} {VALUE_WEIGHTED}",
        },
        allow_nan=False,
    )
