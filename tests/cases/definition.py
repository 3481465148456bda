"""Attention in wide arithmetic by `qkv.formula`, and the one way the tests in this folder compare with it.

The definition of a float16, bfloat16 or float32 case runs in float64, that of a float64 case in long double. Hiding is
written here a second time, with nothing but index arithmetic, so that the library's masks never judge themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import ml_dtypes
import numpy as np

import qkv
from qkv import formula

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
HALVES = (np.dtype(np.float16), BFLOAT16)
DTYPES = (*HALVES, np.dtype(np.float32), np.dtype(np.float64))
NARROW_AND_WIDE = (np.dtype(np.float32), np.dtype(np.float64))


def with_dtypes(small: list[Any], large: list[Any]) -> list[Any]:
    """Pairs (size, dtype): small sizes in every dtype, large ones in float32, for long double takes its time."""
    pairs = [(size, dtype) for size in small for dtype in DTYPES]
    return pairs + [(size, np.dtype(np.float32)) for size in large]


class Answer(NamedTuple):
    """What one call is held to."""

    out: Any  # (…, n_heads, n_q, d_v)
    weights: Any  # (…, n_heads, n_q, n_k)
    lse: Any  # (…, n_heads, n_q), nats


def normal(seed: int, *shapes: tuple[int, ...], dtype: Any = np.float32) -> list[np.ndarray]:
    """Standard normal arrays of the given shapes, rounded to dtype."""
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def qkv_arrays(
    seed: int,
    n_q: int,
    n_k: int,
    *,
    batch: int = 1,
    heads: int = 2,
    kv_heads: int | None = None,
    d_k: int = 8,
    d_v: int | None = None,
    dtype: Any = np.float32,
) -> list[np.ndarray]:
    """Random q (batch, heads, n_q, d_k), k and v (batch, kv_heads, n_k, d_k or d_v)."""
    kv_heads = heads if kv_heads is None else kv_heads
    d_v = d_k if d_v is None else d_v
    return normal(seed, (batch, heads, n_q, d_k), (batch, kv_heads, n_k, d_k), (batch, kv_heads, n_k, d_v), dtype=dtype)


def map_shape(q: np.ndarray, k: np.ndarray) -> tuple[int, ...]:
    """(…, n_heads, n_q, n_k)."""
    return (*q.shape[:-1], k.shape[-2])


def visible_cells(
    shape: tuple[int, ...],
    *,
    causal: bool = False,
    window: tuple[int | None, int | None] | None = None,
    offset: Any = None,
    lengths: Any = None,
    mask: Any = None,
    bias: Any = None,
    **_: Any,
) -> np.ndarray:
    """Which query may see which key, (…, n_heads, n_q, n_k) of bool; offset is the key aligned with query 0."""
    n_q, n_k = shape[-2:]
    i, j = np.arange(n_q)[:, None], np.arange(n_k)
    aligned = i + np.asarray(n_k - n_q if offset is None else offset)[..., None, None, None]
    cells = np.ones(shape, bool)
    if causal:
        cells = cells & (j <= aligned)
    left, right = window or (None, None)
    if left is not None:
        cells = cells & (j >= aligned - left)
    if right is not None:
        cells = cells & (j <= aligned + right)
    if lengths is not None:
        cells = cells & (j < np.asarray(lengths)[..., None, None, None])
    if mask is not None:
        cells = cells & mask
    return cells if bias is None else cells & ~np.isneginf(np.asarray(bias, np.float64))


def define(
    q: Any, k: Any, v: Any, *, dtype: Any = np.float64, visible: Any = None, sinks: Any = None, **arguments: Any
) -> Answer:
    """Score, weight and average of the formula in the given dtype, the sink as one more score of each row."""
    q, k, v = (np.asarray(x).astype(dtype) for x in (q, k, v))
    if q.ndim > 2:
        k, v = (formula.repeat_heads(x, q.shape[-3]) for x in (k, v))
    if arguments.get("bias") is not None:
        arguments["bias"] = np.asarray(arguments["bias"]).astype(dtype)
    score = formula.biased_score(q, k, visible=visible, **arguments)
    sink = None if sinks is None else np.broadcast_to(np.asarray(sinks).astype(dtype)[:, None], score.shape[:-1])
    weights = formula.weight(score, sink)
    return Answer(formula.average(weights, v, score != -np.inf), weights, formula.lse(score, sink))


def as64(x: Any) -> np.ndarray:
    """Any of ours, NumPy's or torch's arrays in float64, long double left alone."""
    if hasattr(x, "detach"):
        x = x.detach().double().numpy()
    x = np.asarray(x)
    return x if x.dtype == np.longdouble else x.astype(np.float64)


def ulp(value: float, dtype: Any) -> float:
    """Distance from value to the next number of dtype."""
    if value == 0 or not np.isfinite(value):
        return float(ml_dtypes.finfo(dtype).smallest_subnormal)
    return float(ml_dtypes.finfo(dtype).eps) * 2.0 ** np.floor(np.log2(float(value)))


def assert_close_to_definition(got: Any, exact: Any, naive: Iterable[Any], dtype: Any) -> None:
    """|got − exact| is at most twice the worst |naive − exact| plus 4 ulp of the largest value.

    What is not finite, NaN or an infinity, stands in the same places. `dtype` is the one whose ulp counts. Where exact
    is a number worked out by hand nothing is naive, and 4 ulp are all there is.
    """
    got, exact = as64(got), as64(exact)
    assert got.shape == exact.shape
    finite = np.isfinite(exact)
    np.testing.assert_array_equal(got[~finite], exact[~finite])
    if not finite.any():
        return
    assert np.isfinite(got[finite]).all(), f"{(~np.isfinite(got[finite])).sum()} values are not finite"
    error = np.abs(got[finite] - exact[finite]).max()
    bound = few_ulp = 4 * ulp(np.abs(exact[finite]).max(), dtype)
    for each in () if error <= bound else naive:
        loss = np.abs(as64(each)[finite] - exact[finite])
        bound = max(bound, 2 * np.max(loss, initial=0, where=np.isfinite(loss)) + few_ulp)
        if error <= bound:
            break
    assert error <= bound, f"error {error:.3g}, allowed {bound:.3g}"


class Naive:
    """What formula.py gives in the dtype of q (16 bit: in float32, rounded once), as `out`, `weights` and `lse`.

    How a sum rounds is a throw of the dice, and the formula may be lucky where the library is not. So each is an
    iterator over several throws, made when asked for: first the formula as it stands, then with channels and keys in
    another order and the scale multiplied into q.
    """

    THROWS = 8  # with one, 1 of 1500 random cases failed for want of luck

    def __init__(self, q: Any, k: Any, v: Any, visible: Any, bias: Any = None, scale: Any = None, **rest: Any) -> None:
        self._dtype = np.asarray(q).dtype
        self._work = np.float64 if self._dtype == np.float64 else np.float32
        self._qkv, self._scale, self._rest = (q, k, v), scale, rest
        self._cells = {"visible": visible, "bias": bias}
        self._answers: list[Answer] = []

    def _throw(self, number: int) -> Answer:
        if number == 0:
            return define(*self._qkv, dtype=self._work, scale=self._scale, **self._cells, **self._rest)
        q, k, v = self._qkv
        rng = np.random.default_rng(number)
        width, keys = rng.permutation(q.shape[-1]), rng.permutation(k.shape[-2])
        scale = 1 / np.sqrt(max(q.shape[-1], 1)) if self._scale is None else self._scale
        shape = map_shape(q, k)
        cells = {n: None if x is None else np.broadcast_to(x, shape)[..., keys] for n, x in self._cells.items()}
        with np.errstate(over="ignore", invalid="ignore"):
            q = q.astype(self._work)[..., width] * self._work(scale)
        k, v = k[..., keys, :][..., width], v[..., keys, :]
        answer = define(q, k, v, dtype=self._work, scale=1.0, **cells, **self._rest)
        return Answer(answer.out, answer.weights[..., np.argsort(keys)], answer.lse)

    def each(self, read: Callable[[Answer], Any]) -> Iterator[Any]:
        """What is read from the answer of each throw, which is not rounded to 16 bit yet."""
        for number in range(self.THROWS):
            if number == len(self._answers):
                self._answers.append(self._throw(number))
            yield read(self._answers[number])

    def _rounded(self, part: Any) -> Any:
        with np.errstate(over="ignore", under="ignore"):
            return part.astype(self._dtype)

    out = property(lambda self: self.each(lambda answer: self._rounded(answer.out)))
    weights = property(lambda self: self.each(lambda answer: self._rounded(answer.weights)))
    lse = property(lambda self: self.each(lambda answer: answer.lse))


def exact_and_naive(q: Any, k: Any, v: Any, *, visible: Any = None, **arguments: Any) -> tuple[Answer, Naive]:
    """The definition in wide arithmetic, and what formula.py gives in the dtype of q."""
    wide = np.longdouble if np.asarray(q).dtype == np.float64 else np.float64
    return define(q, k, v, dtype=wide, visible=visible, **arguments), Naive(q, k, v, visible, **arguments)


def check(q: Any, k: Any, v: Any, *, visible: Any = None, **arguments: Any) -> Answer:
    """Hold output, weights and lse of attend(q, k, **arguments) to the definition; returns what the library gave.

    Without `visible` the arguments must be the plain ones that `visible_cells` reads.
    """
    a = qkv.attend(q, k, **arguments)
    got = Answer(a @ v, np.asarray(a), a.lse())
    if visible is None:
        visible = visible_cells(map_shape(q, k), **arguments)
    hiding = ("causal", "window", "lengths", "mask", "empty")
    rest = {name: value for name, value in arguments.items() if name not in hiding}
    exact, naive = exact_and_naive(q, k, v, visible=visible, **rest)
    dtype = np.asarray(q).dtype
    assert np.asarray(got.out).dtype == got.weights.dtype == a.dtype == dtype
    assert got.lse.dtype == (np.float64 if dtype == np.float64 else np.float32)
    assert_close_to_definition(got.out, exact.out, naive.out, dtype)
    assert_close_to_definition(got.weights, exact.weights, naive.weights, dtype)
    assert_close_to_definition(got.lse, exact.lse, naive.lse, got.lse.dtype)
    assert_hidden_is_zero(got, np.broadcast_to(visible, a.shape), sinks=arguments.get("sinks"))
    return got


def assert_hidden_is_zero(got: Answer, visible: np.ndarray, sinks: Any = None) -> None:
    """Hidden cells weigh exactly 0; a row without a key has output exactly 0 and lse −inf, or its sink's score."""
    assert (as64(got.weights)[~visible] == 0).all()
    empty = ~visible.any(-1)
    assert (as64(got.out)[empty] == 0).all()
    if sinks is None:
        assert (as64(got.lse)[empty] == -np.inf).all()
    else:
        np.testing.assert_array_equal(got.lse[empty], np.broadcast_to(as64(sinks)[:, None], empty.shape)[empty])


def assert_same(one: Any, other: Any) -> None:
    """Two ways to one answer, each held to the definition elsewhere, differ by rounding: 32 ulp of the largest value.

    Of the arithmetic's float32 or float64, that is; storing a result in 16 bit may add one of its own ulp.
    """
    if isinstance(one, Answer):
        for a, b in zip(one, other, strict=True):
            assert_same(a, b)
        return
    dtype = np.asarray(one).dtype
    assert dtype == np.asarray(other).dtype
    one, other = as64(one), as64(other)
    finite = np.isfinite(one)
    np.testing.assert_array_equal(one[~finite], other[~finite])
    largest = np.abs(one[finite]).max(initial=0)
    allowed = 32 * ulp(largest, np.float64 if dtype == np.float64 else np.float32)
    allowed += ulp(largest, dtype) if dtype in HALVES else 0
    assert np.abs(one[finite] - other[finite]).max(initial=0) <= allowed


def bits(x: Any) -> bytes:
    """The bytes of an array, to compare results bit for bit."""
    return np.ascontiguousarray(np.asarray(x)).tobytes()


# Ways to hide cells of a map (batch, n_heads, n_q, n_k): each gives the arguments of attend and the visible cells.


def hide_by_mask(shape: tuple[int, ...]) -> tuple[dict[str, Any], np.ndarray]:
    """Holes everywhere, a key no one may see (where there are two), and one query that may see nothing."""
    mask = np.random.default_rng(shape[-1]).random(shape[-2:]) < 0.6
    mask[:, shape[-1] // 2 : shape[-1] // 2 + 1] = False
    mask[shape[-2] // 2 : shape[-2] // 2 + 1] = False
    return {"mask": mask}, np.broadcast_to(mask, shape)


def hide_by_bias(shape: tuple[int, ...]) -> tuple[dict[str, Any], np.ndarray]:
    """−inf where `hide_by_mask` hides, a slope elsewhere."""
    _, visible = hide_by_mask(shape)
    slope = np.linspace(-1, 1, shape[-1], dtype=np.float32)
    return {"bias": np.where(visible, slope, np.float32(-np.inf))}, visible


def hide_by_causal(shape: tuple[int, ...]) -> tuple[dict[str, Any], np.ndarray]:
    return {"causal": True}, visible_cells(shape, causal=True)


def hide_by_window(shape: tuple[int, ...]) -> tuple[dict[str, Any], np.ndarray]:
    return {"window": (2, 1)}, visible_cells(shape, window=(2, 1))


def hide_by_lengths(shape: tuple[int, ...]) -> tuple[dict[str, Any], np.ndarray]:
    lengths = (np.arange(shape[0]) + 1) * shape[-1] // (shape[0] + 1)
    return {"lengths": lengths}, visible_cells(shape, lengths=lengths)


def hide_by_segments(shape: tuple[int, ...]) -> tuple[dict[str, Any], np.ndarray]:
    """Three packed documents; the keys hold no token of the middle one and some of a fourth, of no query."""
    n_q, n_k = shape[-2:]
    q_ids = np.arange(n_q) * 3 // max(n_q, 1)
    k_ids = np.array([0, 2, 7])[np.arange(n_k) * 3 // max(n_k, 1)]
    visible = np.broadcast_to(q_ids[:, None] == k_ids, shape)
    return {"mask": qkv.masks.segments(q_ids, k_ids)}, visible


HIDERS = {
    "bool mask": hide_by_mask,
    "-inf bias": hide_by_bias,
    "causal": hide_by_causal,
    "window": hide_by_window,
    "lengths": hide_by_lengths,
    "segments": hide_by_segments,
}
