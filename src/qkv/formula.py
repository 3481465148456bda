"""Attention, written to be read: score, hide, softmax, average.

Every head of every transformer is these four steps, and each is one short function here, in plain NumPy:

    score   (…, n_q, d_k), (…, n_k, d_k) -> (…, n_q, n_k)    how well does each key answer each query?
    hide    (…, n_q, n_k)                -> (…, n_q, n_k)    −inf wherever a query may not look
    weight  (…, n_q, n_k)                -> (…, n_q, n_k)    softmax: each row becomes shares of one whole
    average (…, n_q, n_k), (…, n_k, d_v) -> (…, n_q, d_v)    each query takes its shares of the values

`…` stands for any batch axes; heads are one of them. Arithmetic stays in the dtype that comes in: float16
loses what naive float16 code loses, long double serves as a reference. Nothing here is fast, and the
n_q × n_k weights are in memory whole: the rest of the project does better, and is tested against this file.

Papers: VASW17 Vaswani et al. 2017, "Attention Is All You Need", arXiv 1706.03762 · BAHD15 Bahdanau et al.,
arXiv 1409.0473 · LUON15 Luong et al., arXiv 1508.04025 · WANG18 Wang et al., "Non-local Neural Networks",
arXiv 1711.07971.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

# NaN and inf speak by value, in the rows that see them; a warning would mostly say that a row is empty.
_quiet = np.errstate(divide="ignore", over="ignore", invalid="ignore")


# ---- score: the first line, the only one in which the families differ --------------------------------------


@_quiet
def dot_score(q: Array, k: Array) -> Array:
    """Every query dotted with every key (LUON15, dot): (…, n_q, d_k), (…, n_k, d_k) -> (…, n_q, n_k)."""
    product: Array = q @ np.swapaxes(k, -1, -2)
    return product


@_quiet
def score(q: Array, k: Array, scale: float | None = None) -> Array:
    """Scaled dot product (VASW17 eq. 1), in nats: (…, n_q, d_k), (…, n_k, d_k) -> (…, n_q, n_k).

    A sum of d_k independent terms of variance 1 has standard deviation √d_k. `scale`, 1/√d_k unless given,
    brings it back to 1, where the softmax still has a slope.
    """
    if scale is None:
        scale = 1 / math.sqrt(max(q.shape[-1], 1))
    return float(scale) * dot_score(q, k)


@_quiet
def bilinear_score(q: Array, k: Array, w: Array) -> Array:
    """A learned dot product, q W kᵀ (LUON15, general).

    (…, n_q, d_q), (…, n_k, d_k), w (d_q, d_k) -> (…, n_q, n_k)
    """
    return dot_score(q @ w, k)


@_quiet
def additive_score(q: Array, k: Array, w_q: Array, w_k: Array, v: Array, b: Array | None = None) -> Array:
    """One hidden layer over each pair, tanh(q W_q + k W_k + b) · v (BAHD15, appendix A.1.2).

    (…, n_q, d_q), (…, n_k, d_k), w_q (d_q, h), w_k (d_k, h), v (h,), b (h,) -> (…, n_q, n_k)
    """
    layer = (q @ w_q)[..., :, None, :] + (k @ w_k)[..., None, :, :]
    pairs: Array = np.tanh(layer if b is None else layer + b) @ v
    return pairs


# ---- between score and softmax: bend, prefer, hide ---------------------------------------------------------


def cap(score: Array, softcap: float) -> Array:
    """Bend the scores smoothly into ±softcap (Gemma 2, 2024): (…, n_q, n_k) -> (…, n_q, n_k)."""
    bent: Array = float(softcap) * np.tanh(score / float(softcap))
    return bent


@_quiet
def add_bias(score: Array, bias: Array) -> Array:
    """Score plus bias, broadcasting: (…, n_q, n_k). −inf hides; a finite bias, however low, does not."""
    return hide(score + bias, bias != -np.inf)


def hide(score: Array, visible: Array) -> Array:
    """−inf where `visible` is False, whatever stood there, NaN included: (…, n_q, n_k), broadcasting."""
    return np.where(visible, score, -np.inf)


def causal(n_q: int, n_k: int, offset: int | Array | None = None) -> Array:
    """What a decoder may see, key j <= query i + offset: -> bool (…, n_q, n_k).

    `offset` is the key position beside query 0, an integer or an integer array over the batch axes; n_k − n_q
    unless given, so that the last query sees the last key.
    """
    aligned = np.asarray(n_k - n_q if offset is None else offset)[..., None, None]
    queries, keys = np.arange(n_q)[:, None], np.arange(n_k)
    visible: Array = keys <= queries + aligned
    return visible


# ---- softmax: the second line ------------------------------------------------------------------------------


def _exponentials(score: Array, sink: Array | None) -> tuple[Array, Array, Array]:
    """exp(score − top), each row's largest score `top` (…, n_q, 1), and the row's sum (…, n_q, 1)."""
    top = np.max(score, axis=-1, keepdims=True, initial=-np.inf)
    if sink is not None:
        sink = np.asarray(sink)[..., None]
        top = np.maximum(top, sink)
    terms = np.exp(score - top)
    total = np.sum(terms, axis=-1, keepdims=True)
    return terms, top, total if sink is None else total + np.exp(sink - top)


@_quiet
def weight(score: Array, sink: Array | None = None) -> Array:
    """Softmax of each row (VASW17 eq. 1): (…, n_q, n_k) nats -> (…, n_q, n_k) shares that sum to 1.

    A hidden key weighs exactly 0, and so does every key of an empty row. A `sink` (…, n_q) is one more score
    in the denominator, without a value: it takes a share, and the rest of the row sums to less than 1.
    """
    # Not exp(score − lse): at scores of 1e4 the rounding of lse alone would cost four digits.
    terms, _, total = _exponentials(score, sink)
    return np.where(score == -np.inf, 0.0, terms / total)


@_quiet
def lse(score: Array, sink: Array | None = None) -> Array:
    """The log of Σ exp(score) over a row and its sink, in nats: (…, n_q, n_k) -> (…, n_q); −inf if empty.

    weight = exp(score − lse), and it is what lets two rows over different keys be merged into one.
    """
    _, top, total = _exponentials(score, sink)
    return np.where(top == -np.inf, -np.inf, top + np.log(total))[..., 0]


@_quiet
def entropy(weight: Array) -> Array:
    """Entropy −Σ w log w of each row, in nats: (…, n_q, n_k) -> (…, n_q). One key 0, all alike log n_k.

    What a sink took belongs to no key and is not counted.
    """
    # 0 − Σ and not −Σ: a row that is certain has entropy 0, not −0.
    nats: Array = 0.0 - np.sum(np.where(weight == 0, 0.0, weight * np.log(weight)), axis=-1)
    return nats


# ---- average: the third line -------------------------------------------------------------------------------


@_quiet
def average(weight: Array, v: Array, visible: Array | None = None) -> Array:
    """The values averaged under the weights (VASW17 eq. 1): (…, n_q, n_k), (…, n_k, d_v) -> (…, n_q, d_v).

    A query reads only the values `visible` to it, unless given those whose weight is not 0: a NaN or inf
    shows in the rows that see it and in no other.
    """
    seen = weight != 0 if visible is None else visible
    # 0 · inf is NaN, so that a product alone would read what is hidden: it takes the finite values, and each
    # special one goes to those who see it. Adding 0 makes −0 a 0: the sign would tell of a hidden value's.
    out: Array = weight @ np.where(np.isfinite(v), v, 0.0) + 0.0
    for special, found in ((np.inf, v == np.inf), (-np.inf, v == -np.inf), (np.nan, np.isnan(v))):
        if found.any():
            out = np.where(seen @ found, out + special, out)
    return out


# ---- the whole ---------------------------------------------------------------------------------------------


def biased_score(
    q: Array,
    k: Array,
    *,
    scale: float | None = None,
    temperature: float = 1.0,
    softcap: float | None = None,
    bias: Array | None = None,
    visible: Array | None = None,
) -> Array:
    """What the softmax sees: (…, n_q, d_k), (…, n_k, d_k) -> (…, n_q, n_k), −inf where hidden."""
    stage = score(q, k, scale) / float(temperature)
    if softcap is not None:
        stage = cap(stage, softcap)
    if bias is not None:
        stage = add_bias(stage, bias)
    if visible is not None:
        stage = hide(stage, visible)
    return stage


def blend(score: Array, v: Array, visible: Array | None = None, sink: Array | None = None) -> Array:
    """Lines two and three, the same for every score: (…, n_q, n_k), (…, n_k, d_v) -> (…, n_q, d_v)."""
    score = score if visible is None else hide(score, visible)
    return average(weight(score, sink), v, score != -np.inf)


def attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    scale: float | None = None,
    temperature: float = 1.0,
    softcap: float | None = None,
    bias: Array | None = None,
    visible: Array | None = None,
    sink: Array | None = None,
) -> Array:
    """softmax(QKᵀ/√d_k) V (VASW17 eq. 1): (…, n_q, d_k), (…, n_k, d_k), (…, n_k, d_v) -> (…, n_q, d_v).

    In this order: scale · (q·k), ÷ temperature, softcap, bias, mask, softmax, average. `visible` and `bias`
    broadcast to (…, n_q, n_k), `sink` to (…, n_q). A wider bias or sink widens the steps, not the result.

    >>> q, k, v = np.array([[1.0, 0.0]]), np.eye(2), 2 * np.eye(2)
    >>> attention(q, k, v).round(6)
    array([[1.339523, 0.660477]])
    """
    final = biased_score(q, k, scale=scale, temperature=temperature, softcap=softcap, bias=bias, visible=visible)
    out = blend(final, v, sink=sink)
    return out.astype(np.result_type(q, k, v, 1.0), copy=False)


# ---- many heads --------------------------------------------------------------------------------------------


def split(x: Array, n_heads: int) -> Array:
    """Cut the channels into heads, which become a batch axis: (…, n, n_heads·d) -> (…, n_heads, n, d)."""
    *batch, n, width = x.shape
    if n_heads < 1 or width % n_heads:
        raise ValueError(f"x has width {width}, which n_heads = {n_heads} does not cut into equal heads.")
    return np.swapaxes(x.reshape(*batch, n, n_heads, width // n_heads), -2, -3)


def merge(heads: Array) -> Array:
    """Lay the heads side by side again, undoing `split`: (…, n_heads, n, d) -> (…, n, n_heads·d)."""
    *batch, n_heads, n, d = heads.shape
    return np.swapaxes(heads, -2, -3).reshape(*batch, n, n_heads * d)


def repeat_heads(k: Array, n_heads: int) -> Array:
    """Grouped heads, for keys and values alike: (…, n_kv_heads, n_k, d) -> (…, n_heads, n_k, d).

    Query head h reads key head h // (n_heads / n_kv_heads).
    """
    group, rest = divmod(n_heads, max(k.shape[-3], 1))
    if rest:
        raise ValueError(f"n_heads = {n_heads} is no multiple of the key heads in k.shape = {k.shape}.")
    return np.repeat(k, group, axis=-3)


@_quiet
def multi_head(
    x: Array,
    w_q: Array,
    w_k: Array,
    w_v: Array,
    w_o: Array,
    n_heads: int,
    memory: Array | None = None,
    visible: Array | None = None,
) -> Array:
    """Project, split, attend, merge, mix by W_O (VASW17 §3.2.2): (…, n_q, d_model) -> (…, n_q, d_model).

    Keys and values come from `memory` (…, n_k, d_memory): cross-attention; or else from x: self-attention.
    `visible` broadcasts to (…, n_heads, n_q, n_k).
    """
    source = x if memory is None else memory
    q, k, v = (split(part, n_heads) for part in (x @ w_q, source @ w_k, source @ w_v))
    mixed: Array = merge(attention(q, k, v, visible=visible)) @ w_o
    return mixed


@_quiet
def nonlocal_block(x: Array, w_theta: Array, w_phi: Array, w_g: Array) -> Array:
    """Pixels attend to pixels, unscaled (WANG18 eq. 3, embedded Gaussian): (…, H, W, C) -> (…, H, W, d_v).

    w_theta, w_phi (C, d_k) and w_g (C, d_v) play W_Q, W_K and W_V; W_z and the residual come after this.
    """
    *batch, height, width, channels = x.shape
    pixels = x.reshape(*batch, height * width, channels)
    out = blend(dot_score(pixels @ w_theta, pixels @ w_phi), pixels @ w_g)
    return out.reshape(*batch, height, width, out.shape[-1])


# ---- the lesson: three views of the same tokens ------------------------------------------------------------


@_quiet
def project_qkv(
    X: npt.ArrayLike, Wq: npt.ArrayLike, Wk: npt.ArrayLike, Wv: npt.ArrayLike
) -> tuple[Array, Array, Array]:
    """Q, K, V = X @ Wq, X @ Wk, X @ Wv, from X (n, d_model): -> (n, d_k), (n, d_k), (n, d_v)."""
    x, w_q, w_k, w_v = (np.asarray(array) for array in (X, Wq, Wk, Wv))
    for name, w in (("Wq", w_q), ("Wk", w_k), ("Wv", w_v)):
        if w.ndim != 2 or w.shape[0] != x.shape[-1]:
            raise ValueError(
                f"{name} has shape {w.shape} but X has width d_model = {x.shape[-1]} (X.shape = {x.shape}). "
                f"{name} needs {x.shape[-1]} rows, one for each channel of X; did you pass it transposed?"
            )
    if w_q.shape[1] != w_k.shape[1]:
        raise ValueError(
            f"Wk has {w_k.shape[1]} columns but Wq has {w_q.shape[1]} (Wk.shape = {w_k.shape}, Wq.shape = "
            f"{w_q.shape}). Both need the same d_k, as they are dotted; did you pass Wv as Wk?"
        )
    return x @ w_q, x @ w_k, x @ w_v


def _product(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    """The shape of a @ b, in which the inner size is summed away: (n, m), (m, p) -> (n, p)."""
    return a[0], b[1]


def qkv_shapes(n: int, d_model: int, d_k: int, d_v: int) -> dict[str, tuple[int, int]]:
    """The shapes of Q, K and V for n tokens, under the keys "Q", "K" and "V"."""
    return {name: _product((n, d_model), (d_model, d)) for name, d in (("Q", d_k), ("K", d_k), ("V", d_v))}


def output_shape(n_q: int, n_k: int, d_v: int) -> tuple[int, int]:
    """The shape of what attention returns: a row for each query, as wide as a value, whatever n_k is."""
    return _product((n_q, n_k), (n_k, d_v))


def param_count(d_model: int, d_k: int, d_v: int) -> int:
    """How many weights Wq, Wk and Wv have together, without biases."""
    return d_model * d_k + d_model * d_k + d_model * d_v
