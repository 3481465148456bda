"""What there is to see in one head on one text: chosen from the options and computed, not yet written."""

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from qkv._typing import Array
from qkv.cli import _source
from qkv.cli._errors import Usage
from qkv.cli._terminal import quote
from qkv.cli.patterns import Survey, survey
from qkv.measures import Top
from qkv.models import Reader

N_TOP = 5
LEAST = 5e-4  # smallest weight that is listed, and not among the others: the smallest that is not 0.000
LISTED = 32  # tokens that an error lists at most


@dataclass(frozen=True, eq=False)
class Seen:
    """One head on one text, one query of it, and what is known of all heads.

    weights, visible: (n, n). row, value_weighted: (n,), the query's weights, and weight · ‖v_j W_O‖ as shares, None
    where W_O isn't known.
    top: the keys of the query's largest weights, largest first. asked: whether the query was asked for.
    """

    model: Reader
    text: str
    tokens: list[str]
    survey: Survey
    layer: int
    head: int
    query: int
    asked: bool
    weights: Array
    visible: Array
    row: Array
    value_weighted: Array | None
    top: list[int]


def see(
    model: Reader, text: str, layer: int | None, head: int | None, query: str | None, advance: Callable[[], None]
) -> Seen:
    """Run the model over the text and look; None is the head most worth it, and its most decided query.

    advance: called after each layer.
    """
    _check_head(model, layer, head)
    ids, tokens = _source.tokens(model, text)
    at = None if query is None else find_query(query, tokens)
    run = model.run(ids)
    own = model.own(ids)
    sinks = own | (np.arange(len(ids)) == 0)
    heads = survey(run, ids, sinks, advance)
    if layer is None or head is None:
        layer, head = heads.best(layer)
    weights = run.maps[layer][head]
    top = weights.top(N_TOP)
    if at is None:
        at = decided_query(~own, ~sinks, top)
    moved = run.value_weighted(layer)
    return Seen(
        model=model,
        text=text,
        tokens=tokens,
        survey=heads,
        layer=layer,
        head=head,
        query=at,
        asked=query is not None,
        weights=np.asarray(weights),
        visible=np.isfinite(np.asarray(weights.scores("biased"))),
        row=weights[at],
        value_weighted=None if moved is None else moved[head][at],
        top=[int(key) for key, weight in zip(top.key[at], top.weight[at], strict=True) if weight >= LEAST],
    )


def _check_head(model: Reader, layer: int | None, head: int | None) -> None:
    for name, given, size in (("layer", layer, model.n_layers), ("head", head, model.n_heads)):
        if given is not None and not 0 <= given < size:
            raise Usage(f"--{name} is {given}, but {model.name} has {name}s 0 to {size - 1}")
    if layer is None and head is not None:
        raise Usage(f"--head {head} needs a --layer, 0 to {model.n_layers - 1}: every layer has such a head")


def find_query(given: str, tokens: list[str]) -> int:
    """The index that --query means: an index, or the text of a token that stands at one place."""
    last = len(tokens) - 1
    if re.fullmatch(r"[+-]?[0-9]+", given):
        if 0 <= int(given) <= last:
            return int(given)
        raise Usage(f"--query {given} is no index of {last + 1} tokens, 0 to {last}{_places(given, tokens)}")
    found = [at for at, token in enumerate(tokens) if token == given]
    found = found or [at for at, token in enumerate(tokens) if token.strip().casefold() == given.strip().casefold()]
    if len(found) == 1:
        return found[0]
    if found:
        raise Usage(f"--query {quote(given)} stands at {_listed(found)}; give one of these numbers instead")
    known = " ".join(f"{at}:{token}" for at, token in enumerate(tokens[:LISTED])) + " …" * (last >= LISTED)
    raise Usage(f"--query {quote(given)} is none of the tokens, which are {known}")


def _places(given: str, tokens: list[str]) -> str:
    """Where a number stands as a token, so that it can be asked for by index."""
    found = [at for at, token in enumerate(tokens) if token == given]
    return f"; the token {quote(given)} stands at {_listed(found)}" if found else ""


def _listed(numbers: list[int]) -> str:
    *most, last = map(str, numbers)
    return f"{', '.join(most)} and {last}" if most else last


def decided_query(text: Array, says: Array, top: Top) -> int:
    """The query with the largest weight, (n, k) each in `top`: of the text, and on another token that says something.

    text: bool (n,), the tokens that are not the model's own. says: of those all but the first, at which queries look
    that look for nothing. Where there is no such query, the one with the largest weight of the text, or of all.
    """
    key, places = top.key[:, 0].tolist(), range(len(text))
    elsewhere = [at for at in places if text[at] and says[key[at]] and key[at] != at]
    choice = elsewhere or [at for at in places if text[at]] or list(places)
    return max(choice, key=lambda at: float(top.weight[at, 0]))
