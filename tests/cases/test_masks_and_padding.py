"""mask is bool and True means may attend; bias is float and is added; both are broadcast, and neither is the other."""

from __future__ import annotations

import math

import numpy as np
import pytest

import qkv
from cases.definition import (
    BFLOAT16,
    DTYPES,
    HALVES,
    as64,
    assert_close_to_definition,
    assert_same,
    bits,
    check,
    qkv_arrays,
    visible_cells,
    with_dtypes,
)


# B053: rasbt/LLMs-from-scratch#1061
@pytest.mark.parametrize(("n", "dtype"), with_dtypes([3, 129], [1025]), ids=str)
def test_true_means_may_attend(n, dtype):
    q, k, v = qkv_arrays(53, n, n, heads=1, d_k=4, dtype=dtype)
    lower = np.tril(np.ones((n, n), bool))
    by_mask, by_causal = check(q, k, v, mask=lower), check(q, k, v, causal=True)
    assert (as64(by_mask.weights)[..., ~lower] == 0).all()
    assert_same(by_mask, by_causal)


# B054: lucidrains/x-transformers#160
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n_k", [5, 1025])
def test_a_bias_of_zero_changes_nothing(n_k, dtype):
    q, k, v = qkv_arrays(54, 3, n_k, d_k=4, dtype=dtype)
    mask = np.resize(np.array([[1, 0, 1, 1, 0], [1, 1, 1, 0, 0], [0, 0, 1, 0, 1]], bool), (3, n_k))
    alone = check(q, k, v, mask=mask)
    both = check(q, k, v, mask=mask, bias=np.zeros((1, 2, 3, n_k), dtype))
    for one, other in zip(alone, both, strict=True):
        assert bits(one) == bits(other)


# B055: NVIDIA/TransformerEngine#614
@pytest.mark.parametrize(("n_k", "lengths"), [(4, [1, 3]), (4, [0, 4]), (2050, [1024, 1025]), (1025, [1023, 0])])
def test_lengths_count_the_visible_keys(n_k, lengths):
    q, k, v = qkv_arrays(55, 3, n_k, batch=2, heads=1, d_k=4)
    mask = (np.arange(n_k) < np.array(lengths)[:, None])[:, None, None]
    by_mask = check(q, k, v, mask=mask)
    spelled = [
        {"lengths": np.array(lengths)},
        {"lengths": lengths},
        {"mask": qkv.masks.lengths(lengths)},
        {"mask": qkv.masks.dense(mask)},
    ]
    for arguments in spelled:
        got = check(q, k, v, visible=np.broadcast_to(mask, by_mask.weights.shape), **arguments)
        np.testing.assert_array_equal(got.weights > 0, by_mask.weights > 0)
        assert_same(got, by_mask)


# B056: hyunwoongko/transformer#40
@pytest.mark.parametrize(("n", "kept"), [(4, 2), (130, 128), (1030, 1024)])
def test_a_mask_with_one_row_hides_keys_not_queries(n, kept):
    q, k, v = qkv_arrays(56, n, n, heads=1, d_k=4)
    keep = (np.arange(n) < kept)[None, None, None]
    got = check(q, k, v, mask=keep)
    assert (got.weights[..., kept:] == 0).all()
    assert (got.weights[..., :kept] > 0).all()
    assert np.isfinite(got.lse).all()


# B056, the other axis: a column hides queries
def test_a_mask_with_one_column_hides_queries_not_keys():
    q, k, v = qkv_arrays(57, 4, 4, heads=1)
    got = check(q, k, v, mask=np.array([1, 1, 0, 0], bool)[None, None, :, None])
    assert (got.weights[..., :2, :] > 0).all()
    assert (got.lse[..., 2:] == -np.inf).all()


SHAPES = [
    (6,),
    (1,),
    (4, 1),
    (4, 6),
    (1, 6),
    (2, 4, 6),
    (2, 1, 6),
    (1, 1, 6),
    (3, 2, 4, 6),
    (3, 1, 1, 6),
    (3, 1, 4, 1),
    (1, 2, 1, 1),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_mask_and_bias_broadcast_as_numpy_does(shape):
    q, k, v = qkv_arrays(58, 4, 6, batch=3)
    rng = np.random.default_rng(len(shape))
    mask, bias = rng.random(shape) < 0.7, rng.standard_normal(shape).astype(np.float32)
    check(q, k, v, mask=mask)
    check(q, k, v, bias=bias)
    check(q, k, v, mask=mask, bias=bias, causal=True)
    hidden = np.where(mask, bias, np.float32(-np.inf))
    check(q, k, v, bias=hidden)


# B060: pytorch/pytorch#107084
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n", [3, 129, 1025])
def test_a_float_bias_is_added_to_the_score(n, dtype):
    q, k, v = qkv_arrays(60, 3, n, heads=1, d_k=4, dtype=dtype)
    bias = np.random.default_rng(60).standard_normal((3, n)).astype(dtype)
    got = check(q, k, v, bias=bias)
    assert (as64(got.weights) > 0).all()
    raw, biased = (as64(qkv.attend(q, k, bias=bias).scores(stage)) for stage in ("raw", "biased"))
    np.testing.assert_allclose(biased - raw, np.broadcast_to(as64(bias), raw.shape), atol=2e-6)


# B061: ml-explore/mlx#2626
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_bias_of_zeros_and_ones_shifts_and_does_not_hide(dtype):
    q, k = np.zeros((1, 1, 1, 2), dtype), np.zeros((1, 1, 2, 2), dtype)
    v = np.array([[0.0], [1.0]]).astype(dtype)[None, None]
    got = check(q, k, v, bias=np.array([[1.0, 0.0]], np.float32))
    assert_close_to_definition(got.out.ravel(), [1 / (1 + math.e)], [], dtype)


# B061, the library's answer to the confusion: each argument refuses what belongs in the other
def test_a_float_mask_and_a_bool_bias_are_refused():
    q, k, _ = qkv_arrays(61, 1, 2)
    with pytest.raises(qkv.DTypeError, match=r"mask.*float32.*bias="):
        qkv.attend(q, k, mask=np.array([[1, 0]], np.float32))
    with pytest.raises(qkv.DTypeError, match=r"bias.*bool.*mask="):
        qkv.attend(q, k, bias=np.array([[True, False]]))
    assert issubclass(qkv.DTypeError, TypeError)


# B063: Comfy-Org/ComfyUI#8118
@pytest.mark.parametrize("bias_dtype", DTYPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_bias_may_be_of_any_float_dtype(dtype, bias_dtype):
    q, k, v = qkv_arrays(63, 3, 3, heads=1, dtype=dtype)
    bias = np.array([[0, -1, -2], [0, 0, -1], [0, 0, 0]]).astype(bias_dtype)
    got = check(q, k, v, bias=bias)
    same = qkv.attend(q, k, bias=bias.astype(dtype))
    assert got.out.dtype == dtype
    assert bits(got.out) == bits(same @ v)


def test_a_16_bit_bias_may_hide():
    q, k, v = qkv_arrays(64, 3, 5, dtype=np.float16)
    for dtype in HALVES:
        bias = np.array([0, -np.inf, 0, -np.inf, 0]).astype(dtype)
        got = check(q, k, v, bias=bias)
        assert (as64(got.weights)[..., [1, 3]] == 0).all()
    assert BFLOAT16 in HALVES


# B064: cerebroai/reformers#3
@pytest.mark.parametrize(("size", "dtype"), with_dtypes([(3, 3)], [(129, 1025)]), ids=str)
def test_a_mask_that_hides_nothing_is_no_mask_bit_for_bit(size, dtype):
    n_q, n_k = size
    q, k, v = qkv_arrays(64, n_q, n_k, heads=1, d_k=4, dtype=dtype)
    none = check(q, k, v)
    everything = [{"mask": np.ones((n_q, n_k), bool)}, {"mask": np.ones(n_k, bool)}, {"lengths": [n_k]}]
    for arguments in everything:
        for one, other in zip(check(q, k, v, **arguments), none, strict=True):
            assert bits(one) == bits(other)


# B065: georg-wolflein/good-features#1
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_hidden_score_does_not_count_as_zero(dtype):
    q = np.ones((1, 1, 1, 1), dtype)
    k = np.array([0.7, -0.4, 1.3, 0.1]).astype(dtype).reshape(1, 1, 4, 1)
    v = np.eye(4).astype(dtype)[None, None]
    got = check(q, k, v, mask=np.array([1, 1, 0, 0], bool), scale=1.0)
    e = np.exp(as64(k).ravel()[:2])
    want = np.array([*(e / e.sum()), 0, 0])
    assert_close_to_definition(got.out.ravel(), want, [], dtype)
    assert_same(got.out.ravel(), got.weights.ravel())


# B067: microsoft/onnxruntime#14363
@pytest.mark.parametrize(("n", "dtype"), with_dtypes([7, 130], [1030]), ids=str)
def test_a_mask_with_holes_works_together_with_causal(n, dtype):
    q, k, v = qkv_arrays(67, n, n, d_k=5, dtype=dtype)
    mask = np.resize(np.array([0, 1, 0, 1, 1, 0, 1], bool), n)
    got = check(q, k, v, mask=mask, causal=True)
    assert (as64(got.weights)[..., ~mask] == 0).all()
    assert (as64(got.out)[..., 0, :] == 0).all()
    assert (got.lse[..., 0] == -np.inf).all()
    assert np.isfinite(got.lse[..., 1:]).all()


# B159: joeynmt/joeynmt#151
@pytest.mark.parametrize(("n_q", "n_k", "kept"), [(4, 3, 2), (130, 1030, 1025)])
def test_padding_of_keys_empties_no_query(n_q, n_k, kept):
    q, k, v = qkv_arrays(159, n_q, n_k, heads=1, d_k=4)
    got = check(q, k, v, mask=np.arange(n_k) < kept)
    np.testing.assert_allclose(as64(got.weights).sum(-1), 1, rtol=1e-6)
    assert np.isfinite(got.lse).all()


# B159, the second half: who wants padded queries gone says so
def test_padding_of_queries_zeroes_their_rows_when_asked_for():
    q, k, v = qkv_arrays(160, 4, 3, batch=2, heads=1, d_k=4)
    keys, queries = np.array([2, 3]), np.array([3, 1])
    visible = visible_cells((2, 1, 4, 3), lengths=keys) & (np.arange(4)[:, None] < queries[:, None, None, None])
    got = check(q, k, v, visible=visible, mask=qkv.masks.lengths(keys, queries))
    assert (got.weights[0, 0, 3:] == 0).all()
    assert (got.weights[1, 0, 1:] == 0).all()
    assert (got.weights[0, 0, :3].sum(-1) > 0.99).all()
