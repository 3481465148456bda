"""Any problem that attend takes, drawn at random, is what the definition says."""

import itertools
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings, strategies as st

import qkv
import running
from cases.definition import assert_close_to_definition, exact_and_naive, normal
from qkv import biases, masks, measures

SIZES = st.one_of(st.integers(0, 9), st.sampled_from([127, 128, 129, 140]))
KEYS = st.one_of(st.integers(0, 9), st.sampled_from([1023, 1024, 1025, 1100]))


@st.composite
def rules(draw: Any, batch: tuple[int, ...], n_q: int, n_k: int, depth: int = 2) -> tuple[masks.Mask, np.ndarray]:
    """A mask and the cells it shows, (…, 1, n_q, n_k)."""
    if depth and draw(st.booleans()):
        (a, in_a), (b, in_b) = (draw(rules(batch, n_q, n_k, depth - 1)) for _ in range(2))
        return draw(st.sampled_from([(a & b, in_a & in_b), (a | b, in_a | in_b), (~a, ~in_a)]))
    i, j = np.arange(n_q)[:, None], np.arange(n_k)
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    offset = draw(st.sampled_from([None, 0, 3, -2, rng.integers(-3, n_k + 1, batch)]))
    at = i + np.asarray(n_k - n_q if offset is None else offset)[..., None, None, None]
    kind = draw(st.sampled_from(["causal", "window", "lengths", "segments", "dense"]))
    if kind == "causal":
        return masks.causal(offset), at >= j
    if kind == "window":
        left, right = draw(st.tuples(*[st.one_of(st.none(), st.integers(0, 5))] * 2))
        cells = np.ones((n_q, n_k), bool) if left is None else j >= at - left
        return masks.window(left, right, offset=offset), cells if right is None else cells & (j <= at + right)
    if kind == "lengths":
        lengths = rng.integers(0, n_k + 1, batch)
        return masks.lengths(lengths), np.broadcast_to(j < lengths[..., None, None, None], (*batch, 1, n_q, n_k))
    if kind == "segments":
        q_ids, k_ids = np.sort(rng.integers(0, 3, (*batch, n_q))), rng.integers(0, 3, n_k)
        return masks.segments(q_ids, k_ids), q_ids[..., None, :, None] == k_ids
    cells = rng.random((n_q, n_k)) < draw(st.sampled_from([0.02, 0.5, 0.98]))
    return masks.dense(cells), cells


@st.composite
def problems(draw: Any) -> dict[str, Any]:
    n_q, n_k = draw(SIZES), draw(KEYS)
    batch = draw(st.sampled_from([(), (1,), (2,), (2, 2)]))
    kv_heads, group = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    d_k, d_v = draw(st.integers(0, 9)), draw(st.integers(0, 5))
    dtype = draw(st.sampled_from([np.float16, np.float32, np.float64]))
    shared = draw(st.booleans())  # k and v with a batch axis of size 1
    q, k, v = normal(
        draw(st.integers(0, 999)), (*batch, kv_heads * group, n_q, d_k),
        (*(1 if shared else size for size in batch), kv_heads, n_k, d_k),
        (*(1 if shared else size for size in batch), kv_heads, n_k, d_v), dtype=dtype,
    )  # fmt: skip
    options: dict[str, Any] = {}
    for name, values in {
        "scale": st.sampled_from([0.0, -0.7, 1.0]), "temperature": st.sampled_from([0.5, 3.0]),
        "softcap": st.sampled_from([0.5, 20.0]),
    }.items():  # fmt: skip
        if draw(st.booleans()):
            options[name] = draw(values)
    sinks = normal(5, (kv_heads * group,), dtype=dtype)[0] if draw(st.booleans()) else None
    rule, cells = draw(rules(batch, n_q, n_k)) if draw(st.booleans()) else (None, np.ones((n_q, n_k), bool))
    bias = None
    if draw(st.booleans()):
        bias = normal(6, (kv_heads * group, 1, n_k), dtype=np.float32)[0]
        bias[..., np.random.default_rng(3).random(n_k) < 0.2] = -np.inf
    return {"q": q, "k": k, "v": v, "mask": rule, "cells": cells, "bias": bias, "sinks": sinks, "options": options}


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(problems())
def test_any_problem_is_what_the_definition_says(problem):
    q, k, v, options = problem["q"], problem["k"], problem["v"], dict(problem["options"])
    bias, sinks = problem["bias"], problem["sinks"]
    A = qkv.attend(q, k, mask=problem["mask"], bias=bias, sinks=sinks, **options)
    shape = A.shape
    cells = np.broadcast_to(problem["cells"], shape)
    if bias is not None:
        cells = cells & ~np.isneginf(bias)
    options.setdefault("scale", 1 / max(1, q.shape[-1]) ** 0.5)
    exact, naive = exact_and_naive(q, k, v, visible=cells, bias=bias, sinks=sinks, **options)
    weights, work = A.dense(), q.dtype if q.dtype == np.float64 else np.dtype(np.float32)
    assert_close_to_definition(weights, exact.weights, naive.weights, q.dtype)
    for name in running.NAMES:
        with running.kernel(name):
            assert_close_to_definition(A @ v, exact.out, naive.out, q.dtype)
    assert_close_to_definition(A.lse(), exact.lse, naive.lse, work)
    assert (weights[~cells] == 0).all()
    received, top, local = A.measure(measures.received(), measures.top(2), measures.local(1, offset=0))
    near = np.abs(np.arange(shape[-2])[:, None] - np.arange(shape[-1])) <= 1
    for got, read in [
        (received, lambda answer: answer.weights.sum(-2)),
        (top.weight.sum(-1) + top.rest, lambda answer: answer.weights.sum(-1)),
        (local, lambda answer: np.where(near, answer.weights, 0).sum(-1)),
    ]:
        assert_close_to_definition(got, read(exact), naive.each(read), work)
    assert ((top.key == -1) == (np.arange(2) >= cells.sum(-1)[..., None])).all()


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(problems(), st.integers(1, 4), st.sampled_from(running.NAMES))
def test_any_problem_cut_by_its_keys_and_merged_is_the_whole(problem, parts, name):
    q, k, v, bias = problem["q"], problem["k"], problem["v"], problem["bias"]
    cells = np.broadcast_to(problem["cells"], (*np.broadcast_shapes(q.shape[:-3], k.shape[:-3]), q.shape[-3],
                                               q.shape[-2], k.shape[-2]))  # fmt: skip
    whole = qkv.attend(q, k, mask=cells, bias=bias, sinks=problem["sinks"], **problem["options"])
    edges = np.linspace(0, k.shape[-2], parts + 1).astype(int)
    pieces = []
    for at, (a, b) in enumerate(itertools.pairwise(edges)):
        A = qkv.attend(
            q, k[..., a:b, :], mask=cells[..., a:b], bias=None if bias is None else bias[..., a:b],
            sinks=problem["sinks"] if at == 0 else None, **problem["options"],
        )  # fmt: skip
        with running.kernel(name):
            pieces.append((A @ v[..., a:b, :], A.lse()))
    out, lse = qkv.merge(pieces)
    loose = {"float16": 4e-3, "float32": 1e-5, "float64": 1e-12}
    for got, wanted in ((out, whole @ v), (lse, whole.lse())):
        within = loose[wanted.dtype.name]
        np.testing.assert_allclose(got.astype(float), wanted.astype(float), rtol=within, atol=within)


def test_biases_may_be_structured_in_any_problem(every_kernel):
    q, k, v = normal(1, (2, 4, 130, 8), (2, 2, 1030, 8), (2, 2, 1030, 5))
    table = normal(2, (32, 4))[0]
    bias = biases.alibi() + biases.relative(table, bidirectional=False)
    distance = np.arange(130)[:, None] + 900 - np.arange(1030)
    dense = (
        -biases.alibi_slopes(4)[:, None, None] * np.abs(distance)
        + table.T[:, biases.relative(table, bidirectional=False).bucket(-distance)]
    )
    exact, naive = exact_and_naive(q, k, v, visible=distance >= 0, bias=dense)
    assert_close_to_definition(qkv.attend(q, k, bias=bias, causal=True) @ v, exact.out, naive.out, q.dtype)
