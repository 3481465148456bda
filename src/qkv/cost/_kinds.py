"""Four kinds of layer that carry information between n positions of width d, side by side.

Source: Vaswani et al. 2017, table 1 and section 4. Its terms are orders; here they are evaluated as they stand, with
factor 1, so they tell which kind is cheaper and from where, not what a whole layer costs (`Layer.cost` counts that).
"""

from dataclasses import dataclass

from qkv.cost._layer import check_count
from qkv.errors import ArgumentError

SELF, RECURRENT, CONVOLUTIONAL, RESTRICTED = "self-attention", "recurrent", "convolutional", "restricted"


@dataclass(frozen=True)
class Kind:
    """One kind of layer at a given n and d.

    multiply_adds: the value of `term`. sequential: steps of which each waits for the one before. path: steps, at
    most, that information takes from one position to another.
    """

    name: str
    term: str
    multiply_adds: int
    sequential: int
    path: int
    path_term: str


@dataclass(frozen=True)
class Flip:
    """With fewer than n positions `below` takes fewer multiply-adds, with more `above` does; at n they are equal."""

    n: int
    below: str
    above: str


def kinds(n: int, d: int, k: int = 3, r: int | None = None) -> tuple[Kind, ...]:
    """Self-attention, recurrent, convolutional of kernel k and, where r is given, self-attention to r neighbours.

    The convolutions are dilated, one over the other, which makes the path log_k(n) rather than n/k; a restricted
    layer sees r positions around its own, and n/r of them cover the sequence.

    >>> [(kind.name, kind.multiply_adds) for kind in kinds(196, 768)][:2]
    [('self-attention', 29503488), ('recurrent', 115605504)]
    """
    for name, value, least in (("n", n, 1), ("d", d, 1), ("k", k, 2)):
        check_count(name, value, least)
    rows = [
        Kind(SELF, "n²·d", n * n * d, 1, 1, "1"),
        Kind(RECURRENT, "n·d²", n * d * d, n, n, "n"),
        Kind(CONVOLUTIONAL, "k·n·d²", k * n * d * d, 1, _dilated_layers(n, k), "log_k(n)"),
    ]
    if r is not None:
        check_count("r", r)
        if r > n:
            raise ArgumentError(f"r must be at most n = {n}, got {r}: with n neighbours it is self-attention")
        rows.append(Kind(RESTRICTED, "r·n·d", r * n * d, 1, -(-n // r), "n/r"))
    return tuple(rows)


def flips(d: int, k: int = 3) -> tuple[Flip, ...]:
    """The lengths n up to which self-attention is the cheaper one: d beside recurrent, k·d beside convolutional.

    The other pairs keep their order at every n: a convolutional layer takes k times a recurrent one, and a restricted
    layer r/d times a recurrent one.
    """
    check_count("d", d)
    check_count("k", k, least=2)
    return Flip(d, SELF, RECURRENT), Flip(k * d, SELF, CONVOLUTIONAL)


def _dilated_layers(n: int, k: int) -> int:
    """The layers of kernel k, each k times wider than the one below, that it takes to span n positions: ⌈log_k n⌉."""
    layers, span = 0, 1
    while span < n:
        layers, span = layers + 1, span * k
    return max(layers, 1)
