"""Causal means the last query sees the last key, with and without a mask, a cache, a window or an odd size."""

from __future__ import annotations

import numpy as np
import pytest

import qkv
from cases.definition import (
    DTYPES,
    NARROW_AND_WIDE,
    as64,
    bits,
    check,
    map_shape,
    qkv_arrays,
    visible_cells,
    with_dtypes,
)


# B037: Dao-AILab/flash-attention#402
@pytest.mark.parametrize(
    ("size", "dtype"), with_dtypes([(2, 5), (1, 2), (4, 4), (3, 2050)], [(127, 1023), (129, 1025)]), ids=str
)
def test_the_last_query_sees_the_last_key(size, dtype):
    n_q, n_k = size
    q, k, v = qkv_arrays(37, n_q, n_k, heads=1, d_k=4, dtype=dtype)
    seen = as64(check(q, k, v, causal=True, scale=0.25).weights) > 0
    np.testing.assert_array_equal(seen.sum(-1)[0, 0], n_k - n_q + 1 + np.arange(n_q))
    assert seen[..., -1, :].all()


# B037 as reported: two queries behind a cache of three keys
def test_two_queries_over_five_keys_see_four_and_five():
    q, k, v = qkv_arrays(38, 2, 5, heads=1, d_k=4)
    weights = check(q, k, v, causal=True).weights[0, 0]
    assert (weights[0, :4] > 0).all()
    assert weights[0, 4] == 0
    assert (weights[1] > 0).all()


@pytest.mark.parametrize("offset", [0, 1, -2, 3, 9, -9])
@pytest.mark.parametrize(("n_q", "n_k"), [(4, 6), (6, 4), (130, 1026)])
def test_an_offset_names_the_key_beside_query_zero(n_q, n_k, offset):
    q, k, v = qkv_arrays(39, n_q, n_k)
    shape = map_shape(q, k)
    causal = qkv.masks.causal(offset=offset)
    check(q, k, v, visible=visible_cells(shape, causal=True, offset=offset), causal=causal)
    check(q, k, v, visible=visible_cells(shape, causal=True, offset=offset), mask=causal)
    window = visible_cells(shape, causal=True, window=(2, 0), offset=offset)
    check(q, k, v, visible=window, causal=causal, window=(2, 0))


# B040: lucidrains/x-transformers#187
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n_k", [1, 9, 1023, 1024, 1025, 2050])
def test_one_new_query_is_not_changed_by_causal(n_k, dtype):
    q, k, v = qkv_arrays(40, 1, n_k, batch=2, d_k=4, dtype=dtype)
    with_causal, without = check(q, k, v, causal=True), check(q, k, v)
    for one, other in zip(with_causal, without, strict=True):
        assert bits(one) == bits(other)


# B047: facebookresearch/xformers#103
@pytest.mark.parametrize(("n", "dtype"), with_dtypes([5, 127, 128, 129], [1025]), ids=str)
def test_causal_needs_no_mask_beside_it(n, dtype):
    q, k, v = qkv_arrays(47, n, n, heads=1, d_k=4, dtype=dtype)
    weights = as64(check(q, k, v, causal=True, scale=0.1).weights[0, 0])
    assert (weights[np.triu_indices(n, 1)] == 0).all()
    assert (weights[np.tril_indices(n)] > 0).all()


# B049: pytorch/pytorch#187801
@pytest.mark.parametrize("n", [4, 130, 1030])
def test_a_mask_and_causal_hide_what_either_hides(n):
    q, k, v = qkv_arrays(49, n, n, heads=1, d_k=4)
    keep = np.ones(n, bool)
    keep[1] = False
    got = check(q, k, v, mask=keep[None, None, None], causal=True)
    weights = got.weights[0, 0]
    assert (weights[:, 1] == 0).all()
    np.testing.assert_array_equal(weights[1] > 0, np.arange(n) == 0)
    assert bits(got.out[..., 1, :]) == bits(v[..., 0, :])
    joined = qkv.masks.causal() & keep[None, None, None]
    assert bits(qkv.attention(q, k, v, mask=joined)) == bits(got.out)


# B050: huggingface/transformers#48748
@pytest.mark.parametrize("also", ["nothing", "all-True mask", "softcap", "window"])
@pytest.mark.parametrize(
    ("size", "dtype"), with_dtypes([(6, 4), (131, 128), (131, 70)], [(1030, 1024), (1030, 1000)]), ids=str
)
def test_the_future_changes_no_bit_of_the_past(size, also, dtype):
    n, past = size
    q, k, v = qkv_arrays(50, n, n, d_k=4, dtype=dtype)
    more_k, more_v = k.copy(), v.copy()
    more_k[:, :, past:] += k.dtype.type(3)
    more_v[:, :, past:] -= v.dtype.type(5)
    also = {
        "nothing": {},
        "all-True mask": {"mask": np.ones((n, n), bool)},
        "softcap": {"softcap": 1.0},
        "window": {"window": (100, 0)},
    }[also]
    a, b = (qkv.attend(q, keys, causal=True, **also) for keys in (k, more_k))
    assert bits((a @ v)[:, :, :past]) == bits((b @ more_v)[:, :, :past])
    assert bits(a.lse()[:, :, :past]) == bits(b.lse()[:, :, :past])
    assert bits(np.asarray(a)[:, :, :past]) == bits(np.asarray(b)[:, :, :past])
    assert bits((a @ v)[:, :, past:]) != bits((b @ more_v)[:, :, past:])


# B050: held to the definition as well
@pytest.mark.parametrize("also", [{}, {"mask": np.ones((6, 6), bool)}, {"softcap": 1.0}], ids=str)
def test_causal_keeps_its_meaning_beside_other_arguments(also):
    check(*qkv_arrays(51, 6, 6, d_k=4), causal=True, **also)


# B051: NVIDIA/TransformerEngine#1524
@pytest.mark.parametrize(
    ("size", "dtype"),
    with_dtypes([(3, 5, 7), (1, 3, 1), (5, 13, 11), (3, 17, 257)], [(2, 131, 13), (1, 1029, 3)]),
    ids=str,
)
def test_odd_sizes_stay_causal(size, dtype):
    heads, n, d = size
    check(*qkv_arrays(n, n, n, heads=heads, d_k=d, dtype=dtype), causal=True)


# B052: Dao-AILab/flash-attention#282
@pytest.mark.parametrize("dtype", NARROW_AND_WIDE, ids=str)
@pytest.mark.parametrize(
    ("n_q", "n_k", "lengths"),
    [(2, 6, [3, 6]), (4, 6, [2, 0]), (130, 1030, [1025, 1024]), (3, 2050, [1023, 2049]), (129, 129, [1, 128])],
)
def test_each_sequence_is_aligned_to_its_own_length(n_q, n_k, lengths, dtype):
    q, k, v = qkv_arrays(52, n_q, n_k, batch=2, heads=1, d_k=4, dtype=dtype)
    lengths = np.array(lengths)
    i, j = np.arange(n_q)[:, None], np.arange(n_k)
    mask = np.stack([(j <= i + length - n_q) & (j < length) for length in lengths])[:, None]
    offset = qkv.masks.causal(offset=lengths - n_q)
    dense = check(q, k, v, mask=mask)
    for arguments in ({"causal": offset, "lengths": lengths}, {"causal": offset}, {"mask": offset}):
        got = check(q, k, v, visible=mask, **arguments)
        np.testing.assert_array_equal(got.weights > 0, dense.weights > 0)


def test_lengths_alone_do_not_move_the_alignment():
    q, k, v = qkv_arrays(53, 2, 6, batch=2)
    got = check(q, k, v, causal=True, lengths=[3, 6])
    np.testing.assert_array_equal((got.weights > 0).sum(-1)[:, 0], [[3, 3], [5, 6]])
