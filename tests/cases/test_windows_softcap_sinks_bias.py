"""Windows, softcap, sinks, ALiBi and scale: what each does, in which order, alone and together."""

from __future__ import annotations

import math

import numpy as np
import pytest

import qkv
from cases.definition import (
    DTYPES,
    Answer,
    as64,
    assert_close_to_definition,
    assert_same,
    bits,
    check,
    map_shape,
    qkv_arrays,
    visible_cells,
    with_dtypes,
)

SQUARE = [6, 8, 129, 1030]


# B112: jax-ml/jax#32300
@pytest.mark.parametrize(("n", "dtype"), with_dtypes(SQUARE[:-1], SQUARE[-1:]), ids=str)
def test_a_window_needs_no_mask_beside_it(n, dtype):
    q, k, v = qkv_arrays(112, n, n, d_k=4, dtype=dtype)
    weights = as64(check(q, k, v, window=(1, 1), scale=0.1).weights)
    i = np.arange(n)
    np.testing.assert_array_equal(weights[0, 0] > 0, np.abs(i[:, None] - i) <= 1)


# B112, every width, with more or fewer queries than keys, short and long spelling
@pytest.mark.parametrize(
    "window", [(0, 0), (2, 0), (0, 3), (3, None), (None, 1), (None, None), (200, 100), (5000, 5000)], ids=str
)
@pytest.mark.parametrize(("n_q", "n_k"), [(5, 9), (9, 5), (129, 1030), (300, 260)])
def test_a_window_counts_keys_beside_the_aligned_one(n_q, n_k, window):
    q, k, v = qkv_arrays(113, n_q, n_k)
    check(q, k, v, window=window)
    visible = visible_cells(map_shape(q, k), window=window)
    check(q, k, v, visible=visible, mask=qkv.masks.window(*window))
    check(q, k, v, causal=True, window=window)


# B113: jax-ml/jax#39576
@pytest.mark.parametrize("n", SQUARE)
@pytest.mark.parametrize("left", [0, 2, 130, 1025])
def test_a_window_that_ends_at_the_query_is_causal(n, left):
    q, k, v = qkv_arrays(114, n, n, heads=1, d_k=4)
    alone, with_causal = check(q, k, v, window=(left, 0)), check(q, k, v, window=(left, 0), causal=True)
    wide = check(q, k, v, window=(left, None), causal=True)
    assert (alone.weights[..., np.triu(np.ones((n, n), bool), 1)] == 0).all()
    for one, other, third in zip(alone, with_causal, wide, strict=True):
        assert bits(one) == bits(other) == bits(third)


# B114: karpathy/nanochat#456
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("n_k", "left"), [(20, 4), (1025, 0), (1025, 1), (2050, 1030), (3, 9)])
def test_decoding_one_token_keeps_the_window(n_k, left, dtype):
    q, k, v = qkv_arrays(115, 1, n_k, d_k=4, dtype=dtype)
    got = check(q, k, v, causal=True, window=(left, 0), scale=0.1)
    first = max(0, n_k - 1 - left)
    assert (as64(got.weights)[..., :first] == 0).all()
    assert (as64(got.weights)[..., first:] > 0).all()


# B117: onnx/onnx#7865
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n_k", [3, 1025])
def test_softcap_comes_before_the_mask(n_k, dtype):
    q, k = np.zeros((1, 1, 1, 1), dtype), np.zeros((1, 1, n_k, 1), dtype)
    v = np.full((1, 1, n_k, 1), 300).astype(dtype)
    v[0, 0, :2, 0] = [1, 2]
    mask = np.arange(n_k) < 2
    hidden = np.where(mask, 0, -np.inf)
    for arguments in ({"mask": mask}, {"bias": hidden.astype(dtype)}, {"lengths": [2]}):
        got = check(q, k, v, softcap=1.0, **arguments)
        assert as64(got.out).item() == 1.5
        np.testing.assert_array_equal(as64(got.weights).ravel(), 0.5 * mask)


# B120: huggingface/trl#5691
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_scale_stands_inside_the_softcap(dtype):
    q, k, v = (np.array(x).astype(dtype)[None, None] for x in ([[4.0]], [[1.0], [0.0]], [[1.0], [0.0]]))
    got = check(q, k, v, scale=0.5, softcap=3.0)
    want = 1 / (1 + math.exp(-3 * math.tanh(4 * 0.5 / 3)))
    assert_close_to_definition(got.out.ravel(), [want], [], dtype)


# B120 and its neighbours: each pair of steps, in the order scale, temperature, softcap, bias, mask
@pytest.mark.parametrize(
    ("arguments", "score"),
    [
        ({"scale": 0.5, "softcap": 3.0}, 3 * math.tanh(2 / 3)),
        ({"scale": 0.5, "temperature": 4.0}, 0.5),
        ({"scale": 1.0, "temperature": 2.0, "softcap": 3.0}, 3 * math.tanh(2 / 3)),
        ({"scale": 1.0, "softcap": 1.0, "bias": np.array([[2.0, 0.0]])}, math.tanh(4) + 2),
        ({"scale": 1.0, "temperature": 2.0, "bias": np.array([[3.0, 0.0]])}, 2 + 3),
        ({"scale": 0.5, "bias": np.array([[3.0, 0.0]])}, 2 + 3),
    ],
    ids=str,
)
def test_the_order_is_scale_temperature_softcap_bias(arguments, score):
    q, k, v = np.array([[4.0]]), np.array([[1.0], [0.0]]), np.array([[1.0], [0.0]])
    got = check(q, k, v, **arguments)
    np.testing.assert_allclose(got.out.item(), 1 / (1 + math.exp(-score)), rtol=1e-14)
    np.testing.assert_allclose(qkv.attend(q, k, **arguments).scores("biased")[0, 0], score, rtol=1e-14)


# B122: ml-explore/mlx#3452
@pytest.mark.parametrize(("size", "dtype"), with_dtypes([(6, 6)], [(130, 1030), (129, 2050)]), ids=str)
def test_with_sinks_the_last_query_alone_gives_the_last_row(size, dtype):
    n_q, n_k = size
    q, k, v = qkv_arrays(122, n_q, n_k, heads=4, kv_heads=1, dtype=dtype)
    sinks = np.array([0.5, -1, 3, 0], np.float32)
    for also in ({}, {"causal": True}):
        batch = check(q, k, v, sinks=sinks, **also)
        alone = check(q[:, :, -1:], k, v, sinks=sinks, **also)
        assert_same(alone, Answer(*(x[:, :, -1:] for x in batch)))


# B123: sgl-project/sgl-kernel-npu#216
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_sink_takes_weight_and_gives_no_value(dtype):
    q, k = np.zeros((1, 1, 1, 1), dtype), np.zeros((1, 1, 2, 1), dtype)
    v = np.array([3, 6]).astype(dtype).reshape(1, 1, 2, 1)
    got = check(q, k, v, sinks=np.zeros(1, np.float32))
    np.testing.assert_allclose(as64(got.out).item(), 3, rtol=1e-6)
    np.testing.assert_array_equal(as64(got.weights).ravel(), as64(np.full(2, 1 / 3).astype(dtype)))
    np.testing.assert_allclose(as64(got.lse).item(), math.log(3), rtol=1e-6)


@pytest.mark.parametrize("sink", [-np.inf, -1e30, -50.0, 0.0, 50.0, 1e30])
@pytest.mark.parametrize("n_k", [2, 1025])
def test_sinks_of_any_size_are_safe(n_k, sink):
    q, k, v = qkv_arrays(124, 3, n_k, heads=1)
    got = check(q, k, v, sinks=np.array([sink], np.float32))
    assert np.isfinite(got.out).all()
    if sink == -np.inf:
        np.testing.assert_allclose(got.weights.sum(-1), 1, rtol=1e-6)


def _key_positions(heads, n_k):
    """q, k of zeros and a v that picks out the last key: the output is the weight of the newest key."""
    v = np.zeros((1, heads, n_k, 1), np.float32)
    v[:, :, -1] = 1
    return np.zeros((1, heads, 1, 1), np.float32), np.zeros((1, heads, n_k, 1), np.float32), v


# B126: ml-explore/mlx#3071
@pytest.mark.parametrize(
    ("heads", "exponents"),
    [
        (6, [2, 4, 6, 8, 1, 3]),
        (3, [4, 8, 2]),
        (12, [1, 2, 3, 4, 5, 6, 7, 8, 0.5, 1.5, 2.5, 3.5]),
        (1, [8]),
    ],
)
def test_alibi_slopes_of_any_number_of_heads_follow_the_paper(heads, exponents):
    q, k, v = _key_positions(heads, 4)
    slopes = 2.0 ** -np.array(exponents)
    bias = -slopes[:, None, None] * np.arange(3, -1, -1)
    e = np.exp(bias[:, 0])
    want = (e[:, 3] / e.sum(1)).reshape(1, heads, 1, 1)
    visible = np.ones((1, heads, 1, 4), bool)
    dense = check(q, k, v, bias=bias.astype(np.float32)[None])
    for alibi in (qkv.biases.alibi(), qkv.biases.alibi(slopes)):
        got = qkv.attention(q, k, v, bias=alibi, mask=visible)
        assert_close_to_definition(got, want, [dense.out], np.float32)
    np.testing.assert_allclose(
        qkv.attend(q, k, bias=qkv.biases.alibi()).scores("biased")[0, :, 0], bias[:, 0], rtol=1e-6
    )


# B128: paiml/aprender#2143
def test_the_first_of_eight_alibi_slopes_is_one_half():
    q, k, v = _key_positions(8, 2)
    slopes = 2.0 ** -np.arange(1, 9)
    want = 1 / (1 + np.exp(-slopes))
    got = qkv.attention(q, k, v, bias=qkv.biases.alibi())
    assert_close_to_definition(got.ravel(), want, [], np.float32)
    dense = check(q, k, v, bias=(slopes[:, None, None] * [-1.0, 0.0]).astype(np.float32)[None])
    assert_close_to_definition(dense.out.ravel(), want, [], np.float32)


# B129: found while writing tests
@pytest.mark.parametrize(("size", "dtype"), with_dtypes([(1, 5), (3, 7), (2, 2050)], [(129, 1030)]), ids=str)
def test_alibi_distances_are_those_of_absolute_positions(size, dtype):
    n_q, n_k = size
    q, k, v = qkv_arrays(129, n_q, n_k, heads=1, d_k=2, dtype=dtype)
    distance = (np.arange(n_q) + n_k - n_q)[:, None] - np.arange(n_k)
    dense = np.float32(-0.5) * np.maximum(distance, 0).astype(np.float32)
    want = check(q, k, v, bias=dense, causal=True)
    for arguments in (
        {},
        {"bias": qkv.biases.alibi(np.array([0.5]))},
        {"bias": qkv.biases.alibi([0.5], offset=n_k - n_q)},
    ):
        a = qkv.attend(q, k, causal=True, **arguments)
        if arguments:
            assert_same(a @ v, want.out)
            newest = as64(a.scores("biased")[0, 0, -1]) - as64(a.scores("raw")[0, 0, -1])
            np.testing.assert_allclose(newest, dense[-1], rtol=1e-5, atol=1e-5)
        else:
            assert bits(a @ v) != bits(want.out)


# B130: pytorch/pytorch#105202
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("scale", [-0.7, -3.0, 0.0])
@pytest.mark.parametrize("n_k", [5, 1025])
def test_a_scale_may_be_negative_or_zero(n_k, scale, dtype):
    q, k, v = qkv_arrays(130, 3, n_k, d_k=4, dtype=dtype)
    got = check(q, k, v, scale=scale)
    assert np.isfinite(as64(got.out)).all()
    flipped = check(q, -k, v, scale=-scale)
    assert bits(flipped.weights) == bits(got.weights)
