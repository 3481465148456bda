"""Every head in numbers: measures of its rows, each as a mean over the queries that can show it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from qkv import _arrays, measures
from qkv._map import AttentionMap
from qkv._typing import Array
from qkv.measures import Measure
from qkv.models import Pass

NEAR = 2  # keys on either side that count as local
FEWEST = 3  # queries that a mean is taken over at least


@dataclass(frozen=True)
class Figure:
    """One number for each head: the mean of a row measure.

    measure: the measure, or what makes it of something that is known only beside a pass, which `needs` names: "ids",
    the token ids (n_k,), or "sinks", bool (n_k,). part: the row measure's name among several results.
    """

    name: str
    unit: str
    says: str
    measure: Measure | Callable[[Array], Measure]
    needs: str = ""
    part: str = ""

    def of(self, known: Mapping[str, Array]) -> Measure | None:
        """The measure, None where what it needs is not known."""
        if isinstance(self.measure, Measure):
            return self.measure
        return self.measure(known[self.needs]) if self.needs in known else None


FIGURES = (
    Figure("entropy", "nats", "how undecided a query is", measures.entropy()),
    Figure("normalised", "share", "entropy over that of an even head", measures.entropy(normalised=True)),
    Figure("peak", "share", "largest weight", measures.peak()),
    Figure("sink", "share", "weight on the first token and the model's own", measures.mass, needs="sinks"),
    Figure("self", "share", "weight on the token itself", measures.diagonal(0)),
    Figure("previous", "share", "weight on the token before", measures.diagonal(-1)),
    Figure("next", "share", "weight on the token after", measures.diagonal(1)),
    Figure("local", "share", f"weight within {NEAR} tokens", measures.local(NEAR)),
    Figure("distance", "keys", "how far away the weight is", measures.distance(absolute=True), part="mean"),
    Figure("duplicate", "share", "weight on earlier copies of the token", measures.duplicate, needs="ids"),
    Figure("induction", "share", "weight on what followed an earlier copy", measures.induction, needs="ids"),
)


@dataclass(frozen=True)
class Head:
    """A head, by layer and number, from 0, and its figures by name.

    None in `weight`: fewer than `FEWEST` queries can show it. value_weighted: the same of weight · ‖v_j W_O‖ as a share
    of its row, None where W_O isn't known.
    """

    layer: int
    head: int
    weight: dict[str, float | None]
    value_weighted: dict[str, float | None]


def table(seen: Pass, ids: Any = None, own: Any = None, layers: Iterable[int] | None = None) -> Iterator[Head]:
    """Every head of a pass, layer by layer; each layer is computed when its first head is asked for.

    ids: of the tokens, (n_k,) or (batch, n_k). own: which keys are the model's own tokens, bool (n_k,); with the first
    key they are the sinks. A query counts for a figure where a head that attends evenly would have some of it: it has a
    token before it, or has been seen before, …
    layers: only these.
    """
    maps = seen.maps
    for layer in range(len(maps)) if layers is None else layers:
        weights = maps[layer]
        known = _known(weights.shape[-1], ids, own)
        wanted = [(figure, measure) for figure in FIGURES if (measure := figure.of(known)) is not None]
        counts = [rows > 0 for rows in _rows(seen.even(layer), wanted)]
        by_weight = _means(_rows(weights, wanted), counts)
        moved = seen.value_weighted(layer)
        by_value = None if moved is None else _means(_rows(moved, wanted), counts)
        names = [figure.name for figure, _ in wanted]
        for head in range(weights.shape[-3]):
            yield Head(layer, head, _named(names, by_weight, head), _named(names, by_value, head))


def _known(n_k: int, ids: Any, own: Any) -> dict[str, Array]:
    """What figures may need of the keys of a layer; ids of other tokens, as in cross attention, do not fit."""
    sinks = np.zeros(n_k, bool) if own is None or len(own) != n_k else np.array(own, bool)
    sinks[:1] = True
    fits = ids is not None and np.shape(ids)[-1] == n_k
    return {"sinks": sinks, "ids": np.asarray(ids)} if fits else {"sinks": sinks}


def _rows(weights: AttentionMap, wanted: list[tuple[Figure, Measure]]) -> list[Array]:
    """The row measure of each figure, all batches beside each other: (n_heads, rows)."""
    results = weights.measure(*(measure for _, measure in wanted))
    rows = []
    for (figure, _), result in zip(wanted, results, strict=True):
        part = _arrays.host(getattr(result, figure.part) if figure.part else result)
        rows.append(np.moveaxis(part, -2, 0).reshape(part.shape[-2], -1))
    return rows


def _means(rows: list[Array], counts: list[Array]) -> list[list[float | None]]:
    """The mean of each head over the queries that count, figure by figure; None where they are too few."""
    found = []
    for values, count in zip(rows, counts, strict=True):
        queries = count.sum(axis=-1)
        total = np.where(count, values, 0).sum(axis=-1, dtype=np.float64)
        found.append([t / n if n >= FEWEST else None for t, n in zip(total.tolist(), queries.tolist(), strict=True)])
    return found


def _named(names: list[str], values: list[list[float | None]] | None, head: int) -> dict[str, float | None]:
    """The figures of one head by name; all None where nothing is known, and those that were not asked for."""
    known = {} if values is None else {name: each[head] for name, each in zip(names, values, strict=True)}
    return {figure.name: known.get(figure.name) for figure in FIGURES}
