"""Which heads are worth looking at: those that do, on this text, one thing that has a name.

A head has a pattern when the pattern's measure, averaged over the queries, is large, and larger than that of a head
that attends evenly: among four tokens every head is "local". A head is listed once, under its first pattern.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from qkv import measures
from qkv._typing import Array
from qkv.measures import Measure
from qkv.models import Pass

NEAR = 2  # tokens on either side that count as local
FEWEST = 3  # queries that a mean is taken over at least


@dataclass(frozen=True)
class Pattern:
    """A thing that heads do: a head does it when its score is at least `least`, and `over_even` times an even head's.

    The score is the mean of a row measure over the queries; or, for one key that all look at, the largest share that
    is `received` by a key, of those that are sinks (`sink` is True) or of the others (False).
    """

    name: str
    looks_at: str  # {key} stands for the key that all queries look at
    measure: Callable[[Array], Measure]  # of the token ids
    least: float = 0.5
    over_even: float = 1.5
    sink: bool | None = None

    def key(self, result: Array, sinks: Array) -> Array | None:
        """The key that each head looks at most, (n_heads,), where the pattern is about one."""
        return None if self.sink is None else np.where(sinks == self.sink, result, -1).argmax(axis=-1)

    def score(self, result: Array, counts: Array, key: Array | None) -> Array:
        """The score of each head, (n_heads,), from the measure's result, (n_heads, n)."""
        if key is None:
            return result[:, counts].mean(axis=-1)
        return np.take_along_axis(result, key[:, None], axis=-1)[:, 0] / result.shape[-1]


# The first head of the first pattern found is the one that is shown.
PATTERNS = (
    Pattern("induction", "what followed it last time", measures.induction),
    Pattern("previous token", "the token before", lambda _: measures.diagonal(-1)),
    Pattern("local", f"within {NEAR} tokens of itself", lambda _: measures.local(NEAR)),
    Pattern("one token", "{key}, whatever the token", lambda _: measures.received(), sink=False),
    Pattern("sink", "{key}, whatever the token", lambda _: measures.received(), sink=True),
    Pattern("broad", "everywhere; entropy, 1 = even", lambda _: measures.entropy(normalised=True), 0.85, 0.0),
)


@dataclass(frozen=True)
class Finding:
    """A head with a pattern: its score by weight, by value-weighted share, and the score of a head that attends evenly.

    value_weighted: None where W_O isn't known. key: the index of the key that all look at, for a pattern of one key.
    """

    layer: int
    head: int
    pattern: Pattern
    weight: float
    value_weighted: float | None
    even: float
    key: int | None


@dataclass(frozen=True, eq=False)
class Survey:
    """All heads of one run: those with a pattern, by pattern and score, and how spread out each head is.

    spread: (n_layers, n_heads), mean normalised entropy. too_few: the patterns that this text cannot show, with the
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
        layers = range(len(self.spread)) if layer is None else [layer]
        return min(((at, head) for at in layers for head in range(self.spread.shape[1])), key=self.spread.__getitem__)

    def of(self, layer: int, head: int) -> Finding | None:
        """What was found about a head."""
        return next((each for each in self.findings if (each.layer, each.head) == (layer, head)), None)


def survey(run: Pass, ids: Array, sinks: Array, advance: Callable[[], None] = lambda: None) -> Survey:
    """Look at every head of a run over the ids, (n,); sinks: bool (n,), the keys that say nothing about the text.

    advance: called after each layer.
    """
    wanted = [pattern.measure(ids) for pattern in PATTERNS]
    layers = []
    for layer, map_ in enumerate(run.maps):
        moved = run.value_weighted(layer)
        by_value = [None] * len(wanted) if moved is None else moved.measure(*wanted)
        layers.append((map_.measure(*wanted), by_value, run.even(layer)[:1].measure(*wanted)))
        advance()
    found: dict[tuple[int, int], Finding] = {}
    too_few = {}
    for place, pattern in enumerate(PATTERNS):
        heads: list[Finding] = []
        most = 0
        for layer, (weight, value, even) in enumerate(layers):
            # A query counts where an even head would score: it has a token before it, or has been seen before, …
            counts = even[place][0] > 0
            queries = int(np.count_nonzero(counts))
            most = max(most, queries)
            if queries >= FEWEST:
                heads += _find(pattern, layer, weight[place], value[place], even[place], counts, sinks)
        if most < FEWEST:
            too_few[pattern.name] = most
        for each in sorted(heads, key=lambda each: -each.weight):
            found.setdefault((each.layer, each.head), each)
    spread = [weight[-1].mean(axis=-1) for weight, _, _ in layers]  # by the measure of the last pattern, broad
    return Survey(tuple(found.values()), np.array(spread), too_few)


def _find(
    pattern: Pattern, layer: int, by_weight: Array, by_value: Array | None, by_even: Array, counts: Array, sinks: Array
) -> Iterator[Finding]:
    """The heads of a layer that have the pattern, from its measure of the weights and of the value-weighted map."""
    even = float(pattern.score(by_even, counts, pattern.key(by_even, sinks))[0])
    key = pattern.key(by_weight, sinks)
    weight = pattern.score(by_weight, counts, key)
    value_weighted = None if by_value is None else pattern.score(by_value, counts, key)
    for head in np.flatnonzero(weight >= max(pattern.least, pattern.over_even * even)).tolist():
        at = None if key is None else int(key[head])
        # One key alone may be no candidate: a text without any word has no token to look at.
        if at is None or sinks[at] == pattern.sink:
            share = None if value_weighted is None else float(value_weighted[head])
            yield Finding(layer, head, pattern, float(weight[head]), share, even, at)
