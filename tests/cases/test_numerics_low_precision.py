"""16-bit inputs are computed in float32 at least, extremes stay finite, and a dtype that comes in goes out."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import qkv
from cases.definition import (
    BFLOAT16,
    DTYPES,
    HALVES,
    as64,
    assert_close_to_definition,
    bits,
    check,
    define,
    normal,
    qkv_arrays,
    ulp,
)


# B027: philipturner/metal-flash-attention#8
@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("n_k", [3, 1026])
def test_a_product_beyond_half_precision_is_scaled_before_it_overflows(n_k, dtype):
    q = np.full((1, 1, 1, 64), 40).astype(dtype)
    k = np.empty((1, 1, n_k, 64), dtype)
    k[...] = np.resize(np.array([40, 39.97, 39.5]), n_k).astype(dtype)[:, None]
    v = np.resize(np.array([1, 2, 4]), n_k).astype(dtype).reshape(1, 1, n_k, 1)
    got = check(q, k, v)
    assert np.isfinite(as64(got.out)).all()
    np.testing.assert_allclose(as64(got.lse), as64(define(q, k, v).lse), rtol=1e-6)


# B027, a scale that would overflow or vanish in 16 bit by itself
@pytest.mark.parametrize("scale", [1e-8, 1e5])
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_the_scale_is_not_rounded_to_half_precision(dtype, scale):
    q, k, v = qkv_arrays(27, 3, 5, dtype=dtype)
    check(q, k, v, scale=scale)


# B028: huggingface/candle#3727
@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("n_k", [2048, 2049, 5000, 70_000])
def test_thousands_of_equal_keys_share_the_weight_exactly(n_k, dtype):
    q, k, v = np.zeros((1, 1, 1, 8), dtype), np.zeros((1, 1, n_k, 8), dtype), np.ones((1, 1, n_k, 2), dtype)
    got = check(q, k, v)
    np.testing.assert_array_equal(as64(got.out), 1)
    np.testing.assert_array_equal(as64(got.weights), as64(np.array(1 / n_k).astype(dtype)))
    np.testing.assert_allclose(got.lse, np.log(n_k), rtol=1e-6)


# B029: sonos/tract#2586
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n_k", [5000, 1025])
def test_weights_over_thousands_of_keys_still_sum_to_one(n_k, dtype):
    q, k, _ = qkv_arrays(29, 2, n_k, heads=1, d_k=16, dtype=dtype)
    got = check(q, k, np.ones((1, 1, n_k, 2), dtype))
    assert np.abs(as64(got.out) - 1).max() <= max(ulp(1.0, dtype), 4 * ulp(1.0, got.lse.dtype))
    received = as64(qkv.attend(q, k).received())
    np.testing.assert_allclose(received.sum(-1), 2, rtol=1e-6)


# B031: pytorch/pytorch#163588
@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize(("n_q", "n_k"), [(4, 33), (129, 1025), (3, 2050)])
def test_16_bit_results_are_measured_against_wide_arithmetic_on_the_rounded_inputs(n_q, n_k, dtype):
    q, k, v = normal(31, (1, 1, n_q, 32), (1, 1, n_k, 32), (1, 1, n_k, 8))
    q, k, v = (4 * q).astype(dtype), (4 * k).astype(dtype), v.astype(dtype)
    got = check(q, k, v, causal=True)
    exact = define(q, k, v, visible=np.tril(np.ones((n_q, n_k), bool), n_k - n_q))
    # Rounding the right answer costs half an ulp; a second half is all that float32 arithmetic may add.
    assert np.abs(as64(got.out) - exact.out).max() <= ulp(np.abs(exact.out).max(), dtype)


# B032: vllm-project/vllm#56578
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", [2000.0, 1e18])
def test_softcap_of_a_huge_score_is_the_cap(size, dtype):
    if dtype == np.float16 and size > 65504:
        size = 60000.0
    q = np.array([[size]]).astype(dtype)[None, None]
    k = np.array([[5], [-5], [0]]).astype(dtype)[None, None]
    v = np.array([[1], [2], [3]]).astype(dtype)[None, None]
    got = check(q, k, v, scale=1.0, softcap=30.0)
    e = np.exp(np.array([0.0, -60, -30]))
    assert_close_to_definition(got.out.ravel(), [(e @ [1, 2, 3]) / e.sum()], [], dtype)
    np.testing.assert_array_equal(
        as64(qkv.attend(q, k, scale=1.0, softcap=30.0).scores("capped")).ravel(), [30, -30, 0]
    )


# B036: Dao-AILab/flash-attention#16
@pytest.mark.parametrize("dtype", [BFLOAT16, np.dtype(np.float32), np.dtype(np.float64)], ids=str)
@pytest.mark.parametrize("n_k", [3, 1026])
def test_scores_of_any_finite_size_are_safe(n_k, dtype):
    q = np.full((1, 1, 1, 2), 1e18).astype(dtype)
    k = np.zeros((1, 1, n_k, 2), dtype)
    k[..., 1, :] = -q[..., 0, :]
    k[..., n_k - 1, :] = q[..., 0, :]
    v = np.resize(np.array([3, 2, 5]), n_k).astype(dtype).reshape(1, 1, n_k, 1)
    got = check(q, k, v, scale=1.0)
    np.testing.assert_array_equal(as64(got.out), 5)
    np.testing.assert_array_equal(as64(got.weights).ravel(), np.arange(n_k) == n_k - 1)


# B036, the other factor: the values may be the largest but for rounding, and their average is no larger
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n_k", [4, 1025, 2050])
def test_the_average_of_the_largest_values_does_not_overflow(n_k, dtype):
    q, k, v = qkv_arrays(36, 3, n_k, dtype=dtype)
    largest = dtype.type(0.99 * float(ml_dtypes.finfo(dtype).max))
    signs = np.sign(v.astype(np.float64))
    got = check(q, k, (signs * float(largest)).astype(dtype))
    assert np.isfinite(as64(got.out)).all()
    for queries in (q, 0 * q):
        same = qkv.attend(queries, k) @ np.full_like(v, largest)
        np.testing.assert_allclose(as64(same), float(largest), rtol=ml_dtypes.finfo(dtype).eps + 2e-6)


# B036: and they are hidden like all others
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n_k", [9, 1030])
def test_the_largest_values_change_not_one_bit_where_they_are_hidden(n_k, dtype):
    q, k, v = qkv_arrays(37, 3, n_k, dtype=dtype)
    seen = np.arange(n_k) != 4
    huge = np.where(seen[:, None], v, dtype.type(ml_dtypes.finfo(dtype).max))
    a = qkv.attend(q, k, mask=seen)
    assert bits(a @ v) == bits(a @ huge)


# B161: patrick-kidger/equinox#274
@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8])
def test_integers_are_computed_in_float64(dtype):
    a = np.array([[2, 1, 0], [1, 3, 2], [0, 1, 1]])
    if np.issubdtype(dtype, np.signedinteger):
        a = a * [1, -1, 1]
    integers, floats = a.astype(dtype)[None, None], a.astype(np.float64)[None, None]
    want = check(floats, floats, floats)
    got = qkv.attend(integers, integers)
    assert got.dtype == np.float64
    assert bits(got @ integers) == bits(want.out)
    assert bits(np.asarray(got)) == bits(want.weights)
    assert bits(got.lse()) == bits(want.lse)


# B161: nested lists are what NumPy makes of them
def test_nested_lists_become_float64():
    a = [[2, -1, 0], [1, 3, -2], [0, 1, 1]]
    got = qkv.attention(a, a, a)
    assert got.dtype == np.float64
    assert got.shape == (3, 3)
    assert bits(got) == bits(check(*[np.array(a, np.float64)] * 3).out)


# B164: jax-ml/jax#34114
@pytest.mark.parametrize(("n_q", "n_k"), [(5, 5), (129, 1025), (2, 2050)])
@pytest.mark.parametrize("also", [{}, {"causal": True}, {"softcap": 4.0}, {"sinks": np.array([0.1, 0.2])}], ids=str)
def test_float64_stays_float64_all_the_way(n_q, n_k, also):
    q, k, v = (3 * x for x in qkv_arrays(164, n_q, n_k, dtype=np.float64))
    got = check(q, k, v, **also)
    visible = np.tril(np.ones((n_q, n_k), bool), n_k - n_q) if "causal" in also else None
    rest = {name: value for name, value in also.items() if name != "causal"}
    exact = define(q, k, v, dtype=np.longdouble, visible=visible, **rest)
    for one, other in zip(got, exact, strict=True):
        assert one.dtype == np.float64
        assert np.abs(one - other).max() < 1e-12


def test_every_dtype_that_comes_in_goes_out():
    for dtype in DTYPES:
        q, k, v = qkv_arrays(165, 3, 5, dtype=dtype)
        a = qkv.attend(q, k)
        assert a.dtype == (a @ v).dtype == np.asarray(a).dtype == a[0, 0, 0].dtype == dtype
        wide = np.float64 if dtype == np.float64 else np.float32
        assert a.lse().dtype == a.entropy().dtype == a.received().dtype == a.top(2).weight.dtype == wide
