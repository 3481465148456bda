"""Why the score is divided by √d_k: the experiments behind the sentence, each with its standard error.

    variance      a product of two independent components has variance 1, a sum of d_k of them d_k
    saturation    so the softmax of raw scores hardens with the width; scaled, it is the same at every width
    temperature   the same knob, turned by hand: from the loudest key to all keys alike
    gradient      what a hard softmax lets through: p(1 − p), its Jacobian, and what reaches the query
    split         one wide softmax beside several in slices of it
    spread        how far the scores of real heads spread: about 1 before training, anything after it

Queries and keys are standard normal and independent, as footnote 4 of Vaswani et al. 2017 assumes. That holds before
training and not after it, so √d_k is where to start, not a law: `spread` measures it on maps of trained heads.

Each result is a frozen dataclass of `Estimate`s. A seed gives the same numbers every time; the numbers of one width do
not depend on which other widths were asked for. Raw and scaled scores come from the same draws, and so do the
temperatures, so that their difference is known better than the standard errors of the two suggest.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from qkv import formula, measures
from qkv._map import AttentionMap
from qkv._typing import Array
from qkv.errors import ArgumentError
from qkv.heads import MultiHead

__all__ = [
    "TEMPERATURES", "WIDTHS", "Estimate", "Gradient", "HeadSpread", "Saturation", "Sharpness", "Slope", "Split",
    "Temperature", "Variance", "gradient", "jacobian_norm", "saturation", "slope", "split", "spread", "temperature",
    "untrained", "variance",
]  # fmt: skip

WIDTHS = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
TEMPERATURES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
HARD = 0.99  # a largest weight above this counts as saturated
_AT_ONCE = 1 << 21  # random numbers drawn at once, 16 MB


@dataclass(frozen=True)
class Estimate:
    """A number measured on n independent draws, and how far it is likely off: its standard error, same unit."""

    value: float
    standard_error: float
    n: int

    @classmethod
    def mean(cls, draws: Array) -> Self:
        """The mean of the draws, (n,); its standard error is their standard deviation / √n."""
        n = draws.size
        return cls(float(draws.mean()), float(draws.std(ddof=1)) / math.sqrt(n) if n > 1 else math.inf, n)

    @classmethod
    def median(cls, draws: Array) -> Self:
        """The median of the draws, (n,): half the distance of the order statistics √n / 2 places to either side."""
        n, ordered = draws.size, np.sort(draws)
        reach = math.sqrt(n) / 2
        low, high = max(0, math.floor((n - 1) / 2 - reach)), min(n - 1, math.ceil((n - 1) / 2 + reach))
        return cls(float(np.median(ordered)), float(ordered[high] - ordered[low]) / 2, n)


@dataclass(frozen=True)
class Variance:
    """Footnote 4 line by line, at one width: the variance of one product, of a raw score, of a scaled score."""

    d_k: int
    product_mean: Estimate
    product: Estimate
    raw: Estimate
    scaled: Estimate


@dataclass(frozen=True)
class Sharpness:
    """How decided the rows are: mean largest weight, mean entropy in nats, share of rows with a weight above 0.99."""

    largest: Estimate
    entropy: Estimate
    saturated: Estimate


@dataclass(frozen=True)
class Saturation:
    """The softmax over n_keys keys at one width, of raw scores and of scores / √d_k."""

    d_k: int
    n_keys: int
    raw: Sharpness
    scaled: Sharpness


@dataclass(frozen=True)
class Temperature:
    """The softmax of scores / (√d_k · temperature)."""

    temperature: float
    d_k: int
    n_keys: int
    sharpness: Sharpness
    top: Estimate  # p(1 − p) at the largest weight


@dataclass(frozen=True)
class Slope:
    """What a softmax lets through to its scores, and on to its query.

    top: p(1 − p) at the largest weight, the derivative of that weight by its own score, mean over the draws.
    top_median: of the same, the typical draw; where few draws are undecided, they alone make the mean.
    jacobian: Frobenius norm of ∂weight/∂score. query: of ∂weight/∂q, which the scale shrinks too. query_median.
    """

    top: Estimate
    top_median: Estimate
    jacobian: Estimate
    query: Estimate
    query_median: Estimate


@dataclass(frozen=True)
class Gradient:
    """The slopes over n_keys keys at one width, under raw scores and under scores / √d_k."""

    d_k: int
    n_keys: int
    raw: Slope
    scaled: Slope


@dataclass(frozen=True)
class Split:
    """One width cut into n_heads slices, each with its own scale and softmax.

    gap: the largest difference between the full q·k and the sum of the slices' q·k, 0 but for rounding.
    largest, entropy: of a slice's row. distinct: how many different keys the heads of one query put first.
    disagreement: the entropy of the heads' average less their average entropy, nats (Jensen–Shannon divergence).
    """

    n_heads: int
    d_k: int
    n_keys: int
    gap: float
    largest: Estimate
    entropy: Estimate
    distinct: Estimate
    disagreement: Estimate


@dataclass(frozen=True)
class HeadSpread:
    """The scores of one head over its visible keys, row by row.

    spread: standard deviation of a row's scores, nats, mean over the rows; the scale 1/√d_k is to make it about 1.
    largest: mean largest weight. divisor: what q·k is divided by, √d_k. needed: what would make the spread 1.
    Rows of one text are not independent, so the standard errors are the least that is to be expected.
    """

    head: int
    spread: Estimate
    largest: Estimate
    divisor: float
    needed: float


# ---- what a softmax lets through ---------------------------------------------------------------------------


def slope(weight: Array) -> Array:
    """p(1 − p), the derivative of each weight by its own score: (…, n_k) -> (…, n_k), at most 1/4."""
    steepness: Array = weight * (1 - weight)
    return steepness


def jacobian_norm(weight: Array) -> Array:
    """Frobenius norm of ∂weight/∂score = diag(p) − p pᵀ for each row: (…, n_k) -> (…,)."""
    # In terms of what the largest weight p leaves over: 1 − p would lose what the norm consists of.
    ordered = np.sort(weight, axis=-1)
    p, rest = ordered[..., -1], ordered[..., :-1]
    squares = (rest**2).sum(axis=-1)
    in_rest = ((rest * (1 - rest)) ** 2).sum(axis=-1) + np.maximum(squares**2 - (rest**4).sum(axis=-1), 0)
    norm: Array = np.sqrt((p * rest.sum(axis=-1)) ** 2 + 2 * p**2 * squares + in_rest)
    return norm


# ---- the experiments ---------------------------------------------------------------------------------------


def variance(widths: Sequence[int] = WIDTHS, *, n_draws: int = 2000, seed: int = 0) -> tuple[Variance, ...]:
    """The argument of footnote 4 in numbers, for each width: means and variances known to have mean 0."""
    _check({"n_draws": n_draws}, widths)
    return tuple(_variance(d_k, n_draws, seed) for d_k in widths)


def saturation(
    widths: Sequence[int] = WIDTHS, n_keys: int = 10, *, n_draws: int = 2000, seed: int = 0
) -> tuple[Saturation, ...]:
    """The softmax of random queries over random keys at each width, raw and scaled."""
    _check({"n_keys": n_keys, "n_draws": n_draws}, widths)
    results = []
    for d_k in widths:
        score = np.concatenate([formula.dot_score(q, k)[:, 0] for q, k in _draws(d_k, n_keys, n_draws, seed)])
        raw, scaled = (_sharpness(formula.weight(each)) for each in (score, score / math.sqrt(d_k)))
        results.append(Saturation(d_k, n_keys, raw, scaled))
    return tuple(results)


def temperature(
    temperatures: Sequence[float] = TEMPERATURES, d_k: int = 64, n_keys: int = 10, *, n_draws: int = 2000, seed: int = 0
) -> tuple[Temperature, ...]:
    """The same rows at each temperature: towards 0 the loudest key has all, towards ∞ each has 1 / n_keys."""
    _check({"d_k": d_k, "n_keys": n_keys, "n_draws": n_draws})
    if bad := [each for each in temperatures if not 0 < each < math.inf]:
        raise ArgumentError(f"temperatures must be finite and above 0, got {bad[0]!r}")
    score = np.concatenate([formula.score(q, k)[:, 0] for q, k in _draws(d_k, n_keys, n_draws, seed)])
    results = []
    for each in temperatures:
        weight = formula.weight(score / each)
        top = Estimate.mean(slope(weight.max(axis=-1)))
        results.append(Temperature(float(each), d_k, n_keys, _sharpness(weight), top))
    return tuple(results)


def gradient(
    widths: Sequence[int] = WIDTHS, n_keys: int = 10, *, n_draws: int = 2000, seed: int = 0
) -> tuple[Gradient, ...]:
    """What the softmax of random queries over random keys lets through at each width, raw and scaled."""
    _check({"n_keys": n_keys, "n_draws": n_draws}, widths)
    results = []
    for d_k in widths:
        raw, scaled = (_slope(d_k, n_keys, n_draws, seed, scale) for scale in (1.0, 1 / math.sqrt(d_k)))
        results.append(Gradient(d_k, n_keys, raw, scaled))
    return tuple(results)


def split(
    n_heads: Sequence[int] = (1, 2, 4, 8, 16), width: int = 64, n_keys: int = 10, *, n_draws: int = 2000, seed: int = 0
) -> tuple[Split, ...]:
    """The same random queries and keys of one width as 1, 2, 4 … heads, each scaled by 1/√(its own d_k)."""
    _check({"width": width, "n_keys": n_keys, "n_draws": n_draws})
    if bad := [each for each in n_heads if each < 1 or width % each]:
        raise ArgumentError(f"n_heads must divide width = {width}, got {bad[0]}")
    return tuple(_split(each, width, n_keys, n_draws, seed) for each in n_heads)


def spread(map: AttentionMap) -> tuple[HeadSpread, ...]:  # noqa: A002 (the word of the project)
    """How far the scores of each head spread, from its map (n_heads, n_q, n_k); see `measures.spread`.

    The softmax does not see what the scores of a row have in common, so the spread is taken within each row; a row with
    one visible key has none. Which keys are visible is looked up cell by cell: meant for a sentence, not for a book.
    """
    if map.ndim != 3:
        raise ArgumentError(f"map must be (n_heads, n_q, n_k), got {map.shape}; pick one of a batch with map[b]")
    scores, peaks = map.measure(measures.spread(), measures.peak())
    by_row, largest = np.asarray(scores.deviation, np.float64), np.asarray(peaks, np.float64)
    rows = np.isfinite(np.asarray(map.scores("biased"))).sum(axis=-1) > 1
    if not rows.any(axis=-1).all():
        raise ArgumentError(f"map has a head without a row of two visible keys, so nothing to spread: {map.shape}")
    step = map.explain(0, 0, 0)
    divisor, found = step.temperature / step.scale, []
    for head, own in enumerate(rows):
        each = Estimate.mean(by_row[head, own])
        found.append(HeadSpread(head, each, Estimate.mean(largest[head, own]), divisor, each.value * divisor))
    return tuple(found)


def untrained(d_model: int = 384, n_heads: int = 12, n_tokens: int = 64, *, seed: int = 0) -> tuple[HeadSpread, ...]:
    """The spread before training: a layer of random matrices, variance 1/d_model, over standard normal tokens."""
    _check({"d_model": d_model, "n_heads": n_heads, "n_tokens": n_tokens})
    rng = np.random.default_rng([seed, d_model])
    w_q, w_k, w_v, w_o = rng.standard_normal((4, d_model, d_model)) / math.sqrt(d_model)
    return spread(MultiHead(w_q, w_k, w_v, w_o, n_heads).map(rng.standard_normal((n_tokens, d_model))))


# ---- how they are computed ---------------------------------------------------------------------------------


def _draws(d_k: int, n_keys: int, n_draws: int, seed: int) -> Iterator[tuple[Array, Array]]:
    """Standard normal queries and their keys, some at a time: (some, 1, d_k), (some, n_keys, d_k)."""
    rng = np.random.default_rng([seed, d_k, n_keys])
    some = max(1, _AT_ONCE // (d_k * (n_keys + 1)))
    for start in range(0, n_draws, some):
        rows = min(some, n_draws - start)
        yield rng.standard_normal((rows, 1, d_k)), rng.standard_normal((rows, n_keys, d_k))


def _sharpness(weight: Array) -> Sharpness:
    """Of rows of weights, (n_draws, n_keys)."""
    largest = weight.max(axis=-1)
    entropy = Estimate.mean(formula.entropy(weight))
    return Sharpness(Estimate.mean(largest), entropy, Estimate.mean((largest > HARD).astype(np.float64)))


def _variance(d_k: int, n_draws: int, seed: int) -> Variance:
    products = np.concatenate([(q * k)[:, 0] for q, k in _draws(d_k, 1, n_draws, seed)])
    score = products.sum(axis=-1)
    first = products[:, 0]
    squares = (first**2, score**2, score**2 / d_k)  # the mean is known to be 0
    return Variance(d_k, Estimate.mean(first), *(Estimate.mean(each) for each in squares))


def _slope(d_k: int, n_keys: int, n_draws: int, seed: int, scale: float) -> Slope:
    weights, at_query = [], []
    for q, k in _draws(d_k, n_keys, n_draws, seed):
        weight = formula.weight(formula.score(q, k, scale))
        # ∂weight_j/∂q = scale · weight_j (k_j − the average key)
        beside = k - formula.average(weight, k)
        at_query.append(scale * np.sqrt((weight[:, 0] ** 2 * (beside**2).sum(axis=-1)).sum(axis=-1)))
        weights.append(weight[:, 0])
    weight, query = np.concatenate(weights), np.concatenate(at_query)
    top = slope(weight.max(axis=-1))
    return Slope(
        top=Estimate.mean(top),
        top_median=Estimate.median(top),
        jacobian=Estimate.mean(jacobian_norm(weight)),
        query=Estimate.mean(query),
        query_median=Estimate.median(query),
    )


def _split(n_heads: int, width: int, n_keys: int, n_draws: int, seed: int) -> Split:
    weights, gap = [], 0.0
    for q, k in _draws(width, n_keys, n_draws, seed):
        slices = formula.split(q, n_heads), formula.split(k, n_heads)
        whole = formula.dot_score(*slices).sum(axis=-3)
        gap = max(gap, float(np.abs(whole - formula.dot_score(q, k)).max()))
        weights.append(formula.weight(formula.score(*slices))[..., 0, :])
    weight = np.concatenate(weights)  # (n_draws, n_heads, n_keys)
    entropy = formula.entropy(weight).mean(axis=-1)
    together = formula.entropy(weight.mean(axis=1))
    first = np.sort(weight.argmax(axis=-1), axis=-1)
    distinct = 1 + (np.diff(first, axis=-1) > 0).sum(axis=-1)
    # Estimates over draws: the heads of one draw share nothing, but count as one.
    parts = (weight.max(axis=-1).mean(axis=-1), entropy, distinct, together - entropy)
    return Split(n_heads, width // n_heads, n_keys, gap, *(Estimate.mean(each) for each in parts))


def _check(counts: dict[str, int], widths: Sequence[int] = ()) -> None:
    for name, count in (*counts.items(), *(("a width", width) for width in widths)):
        least = 2 if name == "n_draws" else 1  # one draw has no standard error
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < least:
            raise ArgumentError(f"{name} must be a whole number of at least {least}, got {count!r}")
