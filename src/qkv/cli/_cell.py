"""One weight of the toy layer or of a trained model, with everything it is made of."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qkv import toy
from qkv._explain import Explanation
from qkv._map import AttentionMap
from qkv._typing import Array
from qkv.cli import _source
from qkv.cli._errors import Usage
from qkv.cli._seen import find_query
from qkv.models import Model


@dataclass(frozen=True)
class Wanted:
    """What was asked for; None is to be chosen."""

    layer: int | None
    head: int | None
    query: str | None
    key: str | None


@dataclass(frozen=True, eq=False)
class Cell:
    """A weight: of which model, layer, head, query and key; its stages; its channels, and its row.

    q, k: (d_k,). channels: their names, where they have one. visible, weights, value_weighted: (n,), the row.
    """

    model: str
    name: str
    n_heads: int
    tokens: list[str]
    layer: int
    head: int
    stages: Explanation
    q: Array
    k: Array
    channels: tuple[str, ...]
    visible: Array
    weights: Array
    value_weighted: Array


def of_toy(n_heads: int, temperature: float, wanted: Wanted) -> Cell:
    """A weight of the toy layer."""
    layer, tokens = toy.layer(n_heads), list(toy.TOKENS)
    map_ = toy.map(n_heads, temperature)
    _, head, i, j = _choose([map_], tokens, np.ones(len(tokens), bool), wanted, "toy")
    q, k, v = layer.project(toy.x())
    row, norms = map_[head][i], layer.value_norms(v)[head]
    channels = toy.QUESTIONS[head * layer.d_k : (head + 1) * layer.d_k]
    return Cell(
        model="toy",
        name=toy.names(n_heads)[head],
        n_heads=n_heads,
        tokens=tokens,
        layer=0,
        head=head,
        stages=map_.explain(head, i, j),
        q=q[head, i],
        k=k[head, j],
        channels=tuple(question.name for question in channels),
        visible=np.ones(len(tokens), bool),
        weights=row,
        value_weighted=_shares(row * norms),
    )


def of_model(model: Model, text: str, wanted: Wanted) -> Cell:
    """A weight of a trained model over a text."""
    ids, tokens = _source.tokens(model, text)
    run = model.run(ids)
    at, head, i, j = _choose(run.maps, tokens, ~model.own(ids), wanted, model.name)
    layer = run.layers[at]
    group = layer.q.shape[0] // layer.k.shape[0]
    return Cell(
        model=model.name,
        name="",
        n_heads=model.n_heads,
        tokens=tokens,
        layer=at,
        head=head,
        stages=layer.map.explain(head, i, j),
        q=layer.q[head, i],
        k=layer.k[head // group, j],
        channels=(),
        visible=np.isfinite(layer.map.scores("biased")[head, i]),
        weights=layer.map[head][i],
        value_weighted=run.value_weighted(at)[head][i],
    )


def _choose(
    maps: Sequence[AttentionMap], tokens: list[str], text: Array, wanted: Wanted, model: str
) -> tuple[int, int, int, int]:
    """Layer, head, query and key: as wanted, and the largest weight of one token of the text on another.

    text: bool (n,), the tokens that are not the model's own.
    """
    sizes = (("layer", wanted.layer, len(maps)), ("head", wanted.head, maps[0].shape[0]))
    for option, given, size in sizes:
        if given is not None and not 0 <= given < size:
            raise Usage(f"--{option} is {given}, but {model} has {option}s 0 to {size - 1}")
    query = None if wanted.query is None else find_query(wanted.query, tokens)
    key = None if wanted.key is None else _find_key(wanted.key, tokens)
    fixed = [slice(None) if at is None else slice(at, at + 1) for at in (wanted.layer, wanted.head, query, key)]
    allowed = _tokens_on_others(text, query, key)
    best, found = -1.0, (0, 0, 0, 0)
    for layer in range(len(maps))[fixed[0]]:
        cells = np.where(allowed, np.asarray(maps[layer]), -0.5)
        part = cells[fixed[1], fixed[2], fixed[3]]
        at = np.unravel_index(int(part.argmax()), part.shape)
        if part[at] > best:
            starts = (each.start or 0 for each in fixed[1:])
            head, i, j = (int(place) + start for place, start in zip(at, starts, strict=True))
            best, found = float(part[at]), (layer, head, i, j)
    return found


def _tokens_on_others(text: Array, query: int | None, key: int | None) -> Array:
    """Which cells may be chosen, (n, n): none of a model's own tokens or on the token itself, unless asked for."""
    rows, columns = (text if at is None else np.ones_like(text) for at in (query, key))
    allowed = rows[:, None] & columns
    return allowed if query is not None and key is not None else allowed & ~np.eye(len(text), dtype=bool)


def _find_key(given: str, tokens: list[str]) -> int:
    try:
        return find_query(given, tokens)
    except Usage as error:
        raise Usage(str(error).replace("--query", "--key", 1)) from None


def _shares(values: Array) -> Array:
    """Values as shares of their sum, 0 where there is nothing: (n,)."""
    total = values.sum()
    return values / total if total else values
