"""What a query may not see is never read into its row: NaN, inf or huge numbers there change nothing, not one bit."""

from __future__ import annotations

import numpy as np
import pytest

import qkv
from cases.definition import DTYPES, HIDERS, Answer, as64, assert_same, bits, check, map_shape, qkv_arrays

SIZES = [(3, 8), (9, 4), (129, 1025), (127, 1023), (5, 2050)]
POISONS = {"NaN": np.nan, "inf": np.inf, "-inf": -np.inf, "huge": 1e4, "-huge": -1e4}


def _poisoned(x, keys, poison):
    """A copy of k or v with the given keys (bool, (batch, n_k)) of every head overwritten."""
    x = x.copy()
    np.swapaxes(x, 1, 2)[keys] = x.dtype.type(poison)
    return x


def _same_bits(q, k, v, other_k, other_v, rows=np.s_[...], **arguments):
    """Output, weights and lse of the rows are the same bits for (k, v) and for (other_k, other_v)."""
    a, b = qkv.attend(q, k, **arguments), qkv.attend(q, other_k, **arguments)
    assert bits((a @ v)[rows]) == bits((b @ other_v)[rows])
    assert bits(a.lse()[rows]) == bits(b.lse()[rows])
    assert bits(np.asarray(a)[rows]) == bits(np.asarray(b)[rows])


# B072: pytorch/pytorch#101967
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("poison", POISONS)
def test_nan_in_a_hidden_key_and_value_stays_hidden(poison, dtype):
    q, k, v = qkv_arrays(72, 2, 3, heads=1, d_k=4, dtype=dtype)
    k[0, 0, 1] = v[0, 0, 1] = POISONS[poison]
    mask = np.array([1, 0, 1], bool)
    got = check(q, k, v, mask=mask)
    assert np.isfinite(as64(got.out)).all()
    alone = check(q, k[:, :, mask].copy(), v[:, :, mask].copy())
    assert_same(got, Answer(alone.out, np.insert(alone.weights, 1, 0, axis=-1), alone.lse))


# B072, every source of hiding: a poisoned key reaches exactly the rows that may see it
@pytest.mark.parametrize("source", HIDERS)
@pytest.mark.parametrize(("n_q", "n_k"), SIZES)
@pytest.mark.parametrize("d_k", [4, 64])
def test_nan_reaches_only_the_rows_that_may_see_it(d_k, n_q, n_k, source):
    q, k, v = qkv_arrays(73, n_q, n_k, batch=2, d_k=d_k)
    arguments, visible = HIDERS[source](map_shape(q, k))
    keys = np.zeros((2, n_k), bool)
    keys[:, [n_k // 2, n_k - 1]] = True
    touched = (visible & keys[:, None, None]).any(-1)
    bad_k, bad_v = _poisoned(k, keys, np.nan), _poisoned(v, keys, np.nan)
    _same_bits(q, k, v, bad_k, bad_v, rows=~touched, **arguments)
    for keys_of, values_of in ((bad_k, v), (k, bad_v)):
        out = qkv.attention(q, keys_of, values_of, **arguments)
        assert np.isnan(out[touched]).all()
        assert np.isfinite(out[~touched]).all()


# B072: nor does a NaN that is seen spill into the hidden cells beside it
@pytest.mark.parametrize("source", HIDERS)
@pytest.mark.parametrize(("n_q", "n_k"), SIZES)
def test_hidden_cells_of_a_row_that_sees_nan_weigh_exactly_zero(n_q, n_k, source):
    q, k, _ = qkv_arrays(74, n_q, n_k, batch=2, d_k=4)
    arguments, visible = HIDERS[source](map_shape(q, k))
    q[:, :, n_q // 2] = np.nan
    k[:, :, n_k - 1] = np.nan
    a = qkv.attend(q, k, **arguments)
    weights = np.asarray(a)
    assert np.isnan(weights).any() or not visible[..., n_q // 2, :].any()
    assert (weights[~visible] == 0).all()
    assert (a.received()[~visible.any(-2)] == 0).all()


# B072: a row that sees keys, but none with a score above −inf, is no empty row
def test_a_row_whose_visible_scores_are_all_minus_infinity_is_nan_not_zero():
    k, v = -np.ones((4, 2), np.float32), np.ones((4, 3), np.float32)
    q = np.array([[np.inf, np.inf], [1, 1]], np.float32)
    a = qkv.attend(q, k)
    assert np.isnan((a @ v)[0]).all()
    assert np.isnan(np.asarray(a)[0]).all()
    np.testing.assert_array_equal((a @ v)[1], 1)
    assert (qkv.attend(q, k, mask=np.zeros(4, bool)) @ v == 0).all()


# B072, the other side: a query is read into its own row only
@pytest.mark.parametrize(("n_q", "n_k"), SIZES)
@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_nan_in_a_query_stays_in_its_row(n_q, n_k, poison):
    q, k, v = qkv_arrays(74, n_q, n_k, d_k=4)
    bad = q.copy()
    bad[:, :, n_q // 2] = poison
    rest = np.arange(n_q) != n_q // 2
    good, got = qkv.attend(q, k), qkv.attend(bad, k)
    assert bits((good @ v)[:, :, rest]) == bits((got @ v)[:, :, rest])
    assert np.isnan((got @ v)[:, :, ~rest]).all()
    assert bits(good.lse()[..., rest]) == bits(got.lse()[..., rest])


# B073: Dao-AILab/flash-attention#2374
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("n_k", "lengths"), [(6, (2, 5)), (1030, (1024, 1)), (2050, (1025, 1023))])
def test_slots_of_a_cache_behind_its_length_may_hold_nan(n_k, lengths, dtype):
    q, k, v = qkv_arrays(73, 1, n_k, batch=2, heads=1, d_k=4, dtype=dtype)
    unused = np.arange(n_k) >= np.array(lengths)[:, None]
    bad_v = _poisoned(v, unused, np.nan)
    bad_k = k.copy()
    bad_k[1, 0, lengths[1] :] = np.nan
    got = check(q, bad_k, bad_v, lengths=np.array(lengths))
    assert np.isfinite(as64(got.out)).all()
    _same_bits(q, k, v, _poisoned(k, unused, np.nan), bad_v, lengths=lengths)


# B075: ggml-org/llama.cpp#3523
@pytest.mark.parametrize("n_k", [5, 1027, 2050])
def test_a_bias_of_minus_infinity_removes_a_key_whatever_its_score(n_k):
    q, k, v = qkv_arrays(75, 1, n_k, d_k=4)
    used = n_k - 2
    slopes = np.float32([0.5, 0.25])[:, None, None]
    bias = -slopes * np.arange(n_k, dtype=np.float32)[::-1]
    bias[..., used:] = -np.inf
    unused = np.broadcast_to(np.arange(n_k) >= used, (1, n_k))
    for poison in POISONS.values():
        bad_k, bad_v = _poisoned(k, unused, poison), _poisoned(v, unused, poison)
        got = check(q, bad_k, bad_v, bias=bias[None])
        assert np.isfinite(got.out).all()
        _same_bits(q, k, v, bad_k, bad_v, bias=bias[None])


# B075 with a structured bias beside the hiding: NaN minus a distance is still hidden
def test_alibi_does_not_read_keys_that_lengths_hide():
    q, k, v = qkv_arrays(76, 3, 9, d_k=4)
    unused = np.broadcast_to(np.arange(9) >= 6, (1, 9))
    bad_k, bad_v = _poisoned(k, unused, np.nan), _poisoned(v, unused, np.nan)
    _same_bits(q, k, v, bad_k, bad_v, bias=qkv.biases.alibi(), lengths=[6])


# B077: torch-spyre/torch-spyre#4517
@pytest.mark.parametrize("source", HIDERS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("poison", POISONS)
def test_garbage_in_hidden_slots_changes_not_one_bit(poison, dtype, source):
    q, k, v = qkv_arrays(77, 3, 8, batch=2, dtype=dtype)
    arguments, visible = HIDERS[source](map_shape(q, k))
    unseen = ~visible.any((1, 2))
    _same_bits(q, k, v, _poisoned(k, unseen, POISONS[poison]), _poisoned(v, unseen, -POISONS[poison]), **arguments)


# B077 as reported, and beyond one tile
@pytest.mark.parametrize("n_k", [8, 1025, 2050])
@pytest.mark.parametrize("also", [{}, {"softcap": 2.0}, {"sinks": np.float32([0.5, -1])}, {"causal": True}], ids=str)
def test_large_numbers_in_masked_slots_change_not_one_bit(n_k, also):
    q, k, v = qkv_arrays(78, 3, n_k)
    mask = np.resize(np.array([1, 1, 0, 1, 0, 1, 1, 0], bool), n_k)
    check(q, k, v, mask=mask, **also)
    _same_bits(q, k, v, _poisoned(k, ~mask[None], 1e4), _poisoned(v, ~mask[None], -1e4), mask=mask, **also)
    _same_bits(q, k, v, _poisoned(k, ~mask[None], np.nan), _poisoned(v, ~mask[None], np.inf), mask=mask, **also)


# B080: ohdearquant/lattice#374
@pytest.mark.parametrize("n_k", [4, 1025, 2050])
def test_a_hidden_key_weighs_exactly_zero(n_k):
    q, k, _ = qkv_arrays(80, 2, n_k, heads=1, d_k=4)
    v = np.ones((1, 1, n_k, 1), np.float32)
    v[0, 0, 2] = 1e38
    mask = np.arange(n_k) != 2
    got = check(q, k, v, mask=mask)
    np.testing.assert_allclose(got.out, 1, rtol=1e-6)
    assert (got.weights[..., 2] == 0).all()
    assert (qkv.attend(q, k, mask=mask).received()[..., 2] == 0).all()


# B080, every source, every dtype: the weight, what the key receives, and what Aᵀ sends it
@pytest.mark.parametrize("source", HIDERS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("n_q", "n_k"), [(3, 8), (130, 1030)])
def test_a_key_no_one_may_see_receives_exactly_nothing(n_q, n_k, dtype, source):
    q, k, _ = qkv_arrays(81, n_q, n_k, batch=2, d_k=4, dtype=dtype)
    arguments, visible = HIDERS[source](map_shape(q, k))
    a = qkv.attend(q, k, **arguments)
    unseen = ~visible.any(-2)
    assert (as64(a)[~visible] == 0).all()
    assert (as64(a.received())[unseen] == 0).all()
    back = a.T @ np.full((2, 2, n_q, 3), 100, dtype)
    assert back.shape == (2, 2, n_k, 3)
    assert (as64(back)[unseen] == 0).all()


# B080, transposed: a query that sees nothing sends nothing, whatever it holds
@pytest.mark.parametrize("source", HIDERS)
def test_the_transposed_map_does_not_read_empty_rows(source):
    q, k, _ = qkv_arrays(82, 9, 4, batch=2)
    arguments, visible = HIDERS[source](map_shape(q, k))
    a = qkv.attend(q, k, **arguments)
    x = np.random.default_rng(82).standard_normal((2, 2, 9, 3)).astype(np.float32)
    bad = x.copy()
    bad[~visible.any(-1)] = np.nan
    assert bits(a.T @ x) == bits(a.T @ bad)
