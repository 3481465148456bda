"""Tiles and the running maximum never show in a result: every size, wherever the visible keys begin."""

from __future__ import annotations

import numpy as np
import pytest

import qkv
from cases.definition import (
    HALVES,
    Answer,
    as64,
    assert_close_to_definition,
    assert_same,
    bits,
    check,
    exact_and_naive,
    map_shape,
    normal,
    qkv_arrays,
    visible_cells,
)


def _leading(n_k, first, value, dtype=np.float32):
    bias = np.zeros((1, 1, 1, n_k), dtype)
    bias[..., :first] = value
    return bias


# B005: pytorch/pytorch#109517
@pytest.mark.parametrize(("n_k", "first"), [(433, 130), (1025, 1024), (2050, 1100), (2050, 2049)])
def test_the_most_negative_bias_on_the_first_keys_leaves_the_rest(n_k, first):
    q, k, v = qkv_arrays(5, 5, n_k, d_k=16)
    bias = np.broadcast_to(_leading(n_k, first, np.finfo(np.float32).min), (1, 1, 5, n_k))
    got = check(q, k, v, bias=bias)
    assert (got.weights[..., :first] == 0).all()
    exact, naive = exact_and_naive(q, k[..., first:, :], v[..., first:, :])
    assert_close_to_definition(got.out, exact.out, naive.out, np.float32)
    assert_close_to_definition(got.lse, exact.lse, naive.lse, np.float32)


# B005, the other half: a finite bias is no mask, however negative
@pytest.mark.parametrize("n_k", [5, 1025, 2050])
def test_the_most_negative_bias_on_every_key_hides_none_of_them(n_k):
    q, k, v = qkv_arrays(6, 5, n_k)
    got = check(q, k, v, bias=_leading(n_k, n_k, np.finfo(np.float32).min))
    np.testing.assert_allclose(got.weights, 1 / n_k, rtol=1e-6)
    assert np.isfinite(got.lse).all()


# B005: not even one that the arithmetic has no number for
@pytest.mark.parametrize("dtype", [*HALVES, np.float32], ids=str)
@pytest.mark.parametrize("n_k", [5, 1025])
def test_a_float64_bias_too_low_for_float32_hides_nothing(n_k, dtype):
    q, k, v = qkv_arrays(8, 3, n_k, dtype=dtype)
    lowest = np.finfo(np.float64).min
    every = qkv.attend(q, k, bias=_leading(n_k, n_k, lowest, np.float64))
    np.testing.assert_allclose(as64(every), 1 / n_k, rtol=1e-6 if dtype == np.float32 else 4e-3)
    first = n_k // 2
    rest = qkv.attend(q, k, bias=_leading(n_k, first, lowest, np.float64))
    alone = check(q, k[..., first:, :], v[..., first:, :])
    assert_same(Answer(rest @ v, np.asarray(rest)[..., first:], rest.lse()), alone)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_the_most_negative_16_bit_bias_leaves_the_rest_as_well(dtype):
    q, k, v = qkv_arrays(7, 3, 1100, dtype=dtype)
    lowest = np.float32(-65504) if dtype == np.float16 else np.float32(-3.38e38)
    got = check(q, k, v, bias=_leading(1100, 1030, lowest).astype(dtype))
    assert (as64(got.weights)[..., :1030] == 0).all()


# B016: pytorch/pytorch#127055
@pytest.mark.parametrize("n", [650, 1030, 2100])
@pytest.mark.parametrize("source", ["bias", "mask", "window", "masks"])
def test_a_narrow_band_whose_first_tiles_hold_nothing_is_finite(source, n):
    q, k, v = qkv_arrays(16, n, n, heads=1, d_k=6)
    i = np.arange(n)
    band = (i[:, None] >= i) & (i[:, None] - i < 9)
    arguments = {
        "bias": {"bias": np.where(band, np.float32(0), np.float32(-np.inf))},
        "mask": {"mask": band},
        "window": {"causal": True, "window": (8, 0)},
        "masks": {"mask": qkv.masks.causal() & qkv.masks.window(8, None)},
    }[source]
    got = check(q, k, v, visible=band, **arguments)
    assert np.isfinite(got.out).all()
    assert np.isfinite(got.lse).all()
    np.testing.assert_array_equal((got.weights > 0).sum(-1)[0, 0], np.minimum(i + 1, 9))


# B017: ggml-org/llama.cpp#29034
@pytest.mark.parametrize("n_k", [1, 63, 64, 65, 127, 129, 1023, 1024, 1025, 2050])
def test_softcap_gives_no_weight_to_the_filler_of_the_last_tile(n_k):
    q, k, v = qkv_arrays(17, 3, n_k, heads=1, d_k=16)
    got = check(q, k, v, softcap=2.0)
    np.testing.assert_allclose(as64(got.weights).sum(-1), 1, rtol=1e-6)
    ones = qkv.attention(q, k, np.ones_like(v), softcap=2.0)
    np.testing.assert_allclose(ones, 1, rtol=1e-6)


LENGTHS = [*range(1, 10), 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1023, 1024, 1025, 2050]


# B018: pytorch/pytorch#159247
@pytest.mark.parametrize("n_k", LENGTHS)
def test_no_number_of_keys_costs_accuracy(n_k):
    check(*qkv_arrays(18, 130, n_k, d_k=16))


# B018, the other axis and the other dtypes
@pytest.mark.parametrize("n_q", [1, 2, 127, 128, 129, 257])
@pytest.mark.parametrize("dtype", [np.float16, np.float64], ids=["float16", "float64"])
def test_no_number_of_queries_costs_accuracy(n_q, dtype):
    check(*qkv_arrays(19, n_q, 131, d_k=16, dtype=dtype))


# B018: nor does it matter where a tile begins, for a row sees only itself
@pytest.mark.parametrize("n_k", [5, 1025])
@pytest.mark.parametrize("arguments", [{}, {"window": (40, 3)}, {"softcap": 3.0}], ids=str)
def test_a_row_is_the_same_whichever_rows_are_asked_for_with_it(n_k, arguments):
    q, k, v = qkv_arrays(20, 131, n_k, d_k=16)
    offset = n_k - 131
    visible = visible_cells(map_shape(q, k), **{**arguments, "offset": offset})
    whole = check(q, k, v, **arguments)
    rest = {name: value for name, value in arguments.items() if name != "window"}
    if "window" in arguments:
        rest["mask"] = qkv.masks.window(*arguments["window"], offset=offset + 120)
    some = check(q[..., 120:, :], k, v, visible=visible[..., 120:, :], **rest)
    assert_same(some, Answer(whole.out[..., 120:, :], whole.weights[..., 120:, :], whole.lse[..., 120:]))


# B023: TransformerLensOrg/TransformerLens#366
@pytest.mark.parametrize("n", [3, 130, 1030])
def test_a_hidden_key_loses_to_any_visible_score_however_low(n):
    q = np.full((1, 1, n, 1), 400, np.float32)
    k = -500 - np.arange(n, dtype=np.float32).reshape(1, 1, n, 1)
    v = 10 ** (np.arange(n, dtype=np.float32) % 3).reshape(1, 1, n, 1)
    got = check(q, k, v, causal=True, scale=1.0)
    np.testing.assert_array_equal(got.out, 1)
    np.testing.assert_array_equal(got.lse, -200_000)
    np.testing.assert_array_equal(got.weights[..., 0], 1)


# B023, the maximum falls from tile to tile or climbs from tile to tile
@pytest.mark.parametrize("step", [-1.0, 1.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
def test_a_running_maximum_that_keeps_moving_loses_nothing(dtype, step):
    n_k = 3 * 1024 + 5
    k = (step * np.arange(n_k, dtype=dtype) / 64).reshape(1, 1, n_k, 1)
    (v,) = normal(23, (1, 1, n_k, 40), dtype=dtype)  # of four channels the formula may round all by luck
    check(np.ones((1, 1, 2, 1), dtype), k, v, scale=1.0)


WIDTHS = [1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 40, 64, 72, 80, 96, 100, 128, 160, 192, 256, 257, 320]


# B096: NVIDIA/FasterTransformer#89
@pytest.mark.parametrize("d", WIDTHS)
def test_every_head_size_works(d):
    check(*qkv_arrays(96, 3, 5, d_k=d))
    check(*qkv_arrays(97, 3, 5, d_k=8, d_v=d, dtype=np.float64))


# B098: pytorch/pytorch#128348
@pytest.mark.parametrize(("n", "d_k", "d_v"), [(9, 16, 5), (9, 5, 16), (9, 1, 64), (130, 16, 3), (1030, 4, 7)])
def test_values_may_have_another_size_than_keys(n, d_k, d_v):
    q, k, v = qkv_arrays(98, n, n, batch=2 if n < 1000 else 1, d_k=d_k, d_v=d_v)
    got = check(q, k, v, causal=True)
    assert got.out.shape == (*q.shape[:-1], d_v)


# B098: one vector of values is one channel
def test_values_may_be_a_single_vector():
    q, k, _ = qkv_arrays(99, 3, 5)
    (x,) = normal(99, (5,))
    got = qkv.attend(q, k) @ x
    column = np.broadcast_to(x[:, None], (1, 2, 5, 1)).copy()
    assert got.shape == (1, 2, 3)
    assert bits(got) == bits(check(q, k, column).out[..., 0])
