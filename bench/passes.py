"""What measures cost beside A @ v: those of the same pass, and those of a second one."""

from typing import Any

import numpy as np

import qkv
from qkv import measures

PIXELS = 512
TOKENS = 1000  # different ones in a text of any length
LABELS = 8


def with_output(of: qkv.AttentionMap, v: np.ndarray) -> Any:
    """A @ v, entropy and the largest score, asked for at once."""
    return of.measure(measures.output(v), measures.entropy(), measures.max_logit())


def with_lse(of: qkv.AttentionMap, v: np.ndarray) -> Any:
    """A @ v and lse at once."""
    return of.measure(measures.output(v), measures.lse())


def first_pass(of: qkv.AttentionMap) -> Any:
    """What is known after one pass over the keys."""
    return of.measure(measures.lse(), measures.entropy())


def every_measure(n: int) -> tuple[measures.Measure, ...]:
    """The measures that need a second pass, over a text of n tokens, and the two of the first."""
    rng = np.random.default_rng(1)
    ids, labels = rng.integers(0, TOKENS, n), rng.integers(0, LABELS, n)
    return (
        measures.lse(),
        measures.entropy(),
        measures.received(),
        measures.image(PIXELS),
        measures.image(PIXELS, pool="max"),
        measures.top(8),
        measures.distance(),
        measures.diagonal(-1),
        measures.mass(labels=labels),
        measures.saturation(),
        measures.duplicate(ids),
        measures.induction(ids),
        measures.local(16),
    )
