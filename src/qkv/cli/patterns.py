"""Which heads are worth looking at: those that do, on this text, one thing that has a name.

A head has a pattern when the pattern's measure, averaged over the queries, is large, and larger than that of a head
that attends evenly: among four tokens every head is "local". A head is listed once, under its first pattern.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from qkv import attend, measures
from qkv._typing import Array
from qkv.measures import Measure
from qkv.models import Run

NEAR = 2  # tokens on either side that count as local
FEWEST = 3  # queries that a mean is taken over at least


@dataclass(frozen=True)
class Pattern:
    """A thing that heads do: a head does it when its score is at least `least`, and `over_even` times an even head's.

    The score is the mean of a row measure over the queries, or (`on_one_key`) the largest of `received`, as a share.
    """

    name: str
    looks_at: str  # {key} stands for the key that all queries look at
    measure: Callable[[Array], Measure]  # of the token ids
    least: float = 0.5
    over_even: float = 1.5
    on_one_key: bool = False


# The first of the first pattern found is the head that is shown.
PATTERNS = (
    Pattern("induction", "what followed it last time", measures.induction),
    Pattern("previous token", "the token before", lambda ids: measures.diagonal(-1)),
    Pattern("local", f"within {NEAR} tokens of itself", lambda ids: measures.local(NEAR)),
    Pattern("sink", "{key}, whatever the token", lambda ids: measures.received(), on_one_key=True),
    Pattern("broad", "everything alike; 1 = evenly", lambda ids: measures.entropy(normalised=True), 0.85, 0.0),
)


@dataclass(frozen=True)
class Finding:
    """A head with a pattern: its score by weight, by value-weighted share, and the score of a head that attends evenly.

    key: the index of the key that all look at, for a pattern of one key.
    """

    layer: int
    head: int
    pattern: Pattern
    weight: float
    value_weighted: float
    even: float
    key: int | None


@dataclass(frozen=True)
class Survey:
    """All heads of one run: those with a pattern, by pattern and score, and how spread out each head is.

    spread: (n_layers, n_heads), mean normalised entropy. too_few: patterns that this text cannot show, with the
    number of queries that could.
    """

    findings: tuple[Finding, ...]
    spread: Array
    too_few: dict[str, int]

    def best(self, layer: int | None = None) -> tuple[int, int]:
        """The first of the findings, in one layer if given; where there is none, the most decided head."""
        for each in self.findings:
            if layer in {None, each.layer}:
                return each.layer, each.head
        spread = self.spread if layer is None else self.spread[layer : layer + 1]
        at, head = np.unravel_index(spread.argmin(), spread.shape)
        return int(at) + (layer or 0), int(head)

    def of(self, layer: int, head: int) -> Finding | None:
        """What was found about a head."""
        return next((each for each in self.findings if (each.layer, each.head) == (layer, head)), None)


@dataclass(frozen=True)
class _Scores:
    """The scores of one layer, by pattern: (n_patterns, n_heads) each; key: (n_heads,) where sinks look."""

    weight: Array
    value_weighted: Array
    key: Array


def survey(run: Run, ids: Array, *, causal: bool) -> Survey:
    """Look at every head of a run over the ids, (n,)."""
    wanted = [pattern.measure(ids) for pattern in PATTERNS]
    nothing = np.zeros((1, len(ids), 1))
    by_even = attend(nothing, nothing, causal=causal).measure(*wanted)
    # A query counts where an even head would score: it has a token before it, or has been seen before, …
    counts = [pattern.on_one_key | (result[0] > 0) for pattern, result in zip(PATTERNS, by_even, strict=True)]
    even = _scores(by_even, counts, by_even[_SINK].argmax(axis=-1))[:, 0]
    layers = []
    for layer, weights in enumerate(run.maps):
        by_weight = weights.measure(*wanted)
        key = by_weight[_SINK].argmax(axis=-1)
        by_value = run.value_weighted(layer).measure(*wanted)
        layers.append(_Scores(_scores(by_weight, counts, key), _scores(by_value, counts, key), key))
    told = [len(ids) >= FEWEST and count.sum() >= FEWEST for count in counts]
    found = [each for layer, scores in enumerate(layers) for each in _findings(layer, scores, even, told)]
    order = {pattern.name: place for place, pattern in enumerate(PATTERNS)}
    return Survey(
        tuple(sorted(found, key=lambda each: (order[each.pattern.name], -each.weight))),
        np.array([scores.weight[-1] for scores in layers]),
        {p.name: int(count.sum()) for p, count, can in zip(PATTERNS, counts, told, strict=True) if not can},
    )


_SINK = next(place for place, pattern in enumerate(PATTERNS) if pattern.on_one_key)


def _scores(results: tuple[Array, ...], counts: list[Array], key: Array) -> Array:
    """(n_patterns, n_heads) from the results of the patterns' measures, (n_heads, n) each."""
    n_heads, n = results[0].shape
    scores = []
    for pattern, result, count in zip(PATTERNS, results, counts, strict=True):
        if pattern.on_one_key:
            scores.append(result[np.arange(n_heads), key] / n)
        else:
            scores.append(result[:, count].mean(axis=-1) if count.any() else np.zeros(n_heads))
    return np.array(scores)


def _findings(layer: int, scores: _Scores, even: Array, told: list[bool]) -> list[Finding]:
    found = []
    for head in range(scores.weight.shape[1]):
        for place, pattern in enumerate(PATTERNS):
            weight = float(scores.weight[place, head])
            if told[place] and weight >= max(pattern.least, pattern.over_even * even[place]):
                key = int(scores.key[head]) if pattern.on_one_key else None
                value_weighted = float(scores.value_weighted[place, head])
                found.append(Finding(layer, head, pattern, weight, value_weighted, float(even[place]), key))
                break
    return found
