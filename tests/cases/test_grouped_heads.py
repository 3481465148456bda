"""Query head h reads key head h // (n_heads / n_kv_heads); each head has its own map; softmax runs over keys."""

from __future__ import annotations

import numpy as np
import pytest

import qkv
from cases.definition import (
    DTYPES,
    NARROW_AND_WIDE,
    Answer,
    as64,
    assert_same,
    bits,
    check,
    normal,
    qkv_arrays,
    with_dtypes,
)


# B104: onnx/onnx#7274
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 2), (6, 2), (6, 3), (8, 1), (5, 5)])
@pytest.mark.parametrize("n_k", [3, 1025])
def test_key_heads_are_shared_in_blocks(n_k, heads, kv_heads, dtype):
    q, k = np.zeros((1, heads, 1, 2), dtype), np.zeros((1, kv_heads, n_k, 2), dtype)
    v = np.empty((1, kv_heads, n_k, 1), dtype)
    v[...] = (10 * (1 + np.arange(kv_heads))).astype(dtype)[:, None, None]
    got = check(q, k, v)
    want = 10 * (1 + np.arange(heads) // (heads // kv_heads))
    assert_same(got.out.ravel(), want.astype(dtype))


# B105: fkodom/grouped-query-attention-pytorch#5
@pytest.mark.parametrize(("size", "dtype"), with_dtypes([(3, 5)], [(129, 1025)]), ids=str)
def test_each_query_head_of_a_group_attends_on_its_own(size, dtype):
    n_q, n_k = size
    q, k, v = qkv_arrays(105, n_q, n_k, batch=2, heads=6, kv_heads=2, d_k=4, dtype=dtype)
    got = check(q, k, v)
    assert got.out.shape == (2, 6, n_q, 4)
    assert got.weights.shape == (2, 6, n_q, n_k)
    assert len({bits(got.weights[0, head]) for head in range(6)}) == 6
    for head in range(6):
        alone = check(q[:, [head]], k[:, [head // 3]], v[:, [head // 3]])
        assert_same(alone, Answer(*(x[:, [head]] for x in got)))


# B105 with everything that is per head: sinks, slopes, masks
@pytest.mark.parametrize("kv_heads", [1, 2, 3, 6])
def test_what_is_given_per_head_is_per_query_head(kv_heads):
    q, k, v = qkv_arrays(106, 5, 7, heads=6, kv_heads=kv_heads)
    sinks = np.linspace(-1, 2, 6).astype(np.float32)
    bias = np.arange(6, dtype=np.float32)[:, None, None] * np.arange(7, dtype=np.float32)
    mask = np.arange(7) <= np.arange(6)[:, None, None]
    check(q, k, v, sinks=sinks, bias=bias, mask=mask)
    assert qkv.attend(q, k).received().shape == (1, 6, 7)


# B105, values: given per key head or per query head
def test_values_may_come_per_query_head():
    q, k, v = qkv_arrays(107, 5, 7, heads=6, kv_heads=2)
    a = qkv.attend(q, k)
    assert bits(a @ v) == bits(a @ np.repeat(v, 3, axis=1))


# B137: PetrochukM/PyTorch-NLP#2
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("lead", [(1, 1), (1, 2), (3, 1), ()])
def test_softmax_runs_over_keys_not_over_the_batch(lead, dtype):
    q = np.ones((*lead, 1, 1), dtype)
    k = np.broadcast_to(np.array([[0], [np.log(3)]]).astype(dtype), (*lead, 2, 1))
    v = np.broadcast_to(np.eye(2).astype(dtype), (*lead, 2, 2))
    got = check(q, k, v, scale=1.0)
    odds = np.exp(as64(k[..., 0]))
    assert_same(got.out[..., 0, :], (odds / odds.sum(-1, keepdims=True)).astype(dtype))
    np.testing.assert_allclose(as64(got.out), np.broadcast_to([0.25, 0.75], got.out.shape), rtol=1e-2)


# B138: labmlai/annotated_deep_learning_paper_implementations#146
@pytest.mark.parametrize("dtype", NARROW_AND_WIDE, ids=str)
@pytest.mark.parametrize("n", [3, 128, 130, 1025])
def test_rows_sum_to_one_and_columns_need_not(n, dtype):
    q, k, _ = qkv_arrays(138, n, n, heads=1, d_k=4, dtype=dtype)
    got = check(q, k, np.ones((1, 1, n, 1), dtype))
    rounding = 8 * np.finfo(dtype).eps
    np.testing.assert_allclose(got.out, 1, rtol=rounding)
    np.testing.assert_allclose(got.weights.sum(-1), 1, rtol=rounding)
    assert np.abs(got.weights.sum(-2) - 1).max() > 0.01


# B139: pytorch/pytorch#34537
@pytest.mark.parametrize(("size", "dtype"), with_dtypes([(4, 6)], [(129, 1025)]), ids=str)
def test_weights_come_per_head_and_never_averaged(size, dtype):
    n_q, n_k = size
    q, k, v = qkv_arrays(139, n_q, n_k, batch=2, heads=3, d_k=5, dtype=dtype)
    got = check(q, k, v)
    assert got.weights.shape == (2, 3, n_q, n_k)
    for batch, head in np.ndindex(2, 3):
        one = check(q[batch, head], k[batch, head], v[batch, head])
        assert_same(one, Answer(*(x[batch, head] for x in got)))


# B142: pytorch/pytorch#90842
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "also", [{}, {"scale": -3.0}, {"softcap": 0.5}, {"temperature": 1e-3}, {"causal": True}], ids=str
)
@pytest.mark.parametrize("n_q", [1, 3, 130])
def test_a_single_key_weighs_exactly_one(n_q, also, dtype):
    q, k, v = qkv_arrays(142, n_q, 1, batch=3, heads=1, d_k=5, dtype=dtype)
    if also.get("causal"):
        also = {"causal": qkv.masks.causal(offset=0)}
    a = qkv.attend(q, k, **also)
    assert (as64(a) == 1).all()
    assert bits(a @ v) == bits(np.broadcast_to(v, (3, 1, n_q, 5)))


# B142: one visible key among many is the same
@pytest.mark.parametrize(("n", "dtype"), with_dtypes([7], [1030]), ids=str)
def test_a_single_visible_key_weighs_exactly_one(n, dtype):
    q, k = normal(143, (2, n, 4), (2, n, 4), dtype=dtype)
    (v,) = normal(144, (2, n, 5), dtype=dtype)
    got = check(q, k, v, window=(0, 0))
    np.testing.assert_array_equal(as64(got.weights), np.broadcast_to(np.eye(n), (2, n, n)))
    assert bits(got.out) == bits(v)
