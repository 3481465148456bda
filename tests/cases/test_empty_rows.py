"""A query that may see no key has weights 0, output 0 and lse −inf, and spoils nothing around it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import qkv
from cases.definition import (
    DTYPES,
    HIDERS,
    as64,
    assert_close_to_definition,
    bits,
    check,
    exact_and_naive,
    map_shape,
    normal,
    qkv_arrays,
    with_dtypes,
)

# Both sides of the walk's tiles: 128 queries, 1024 keys.
SIZES = [(1, 1), (4, 6), (7, 3), (127, 129), (129, 1023), (3, 1025), (130, 2050)]


# B001: pytorch/pytorch#103749
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_query_without_keys_gets_zeros_and_leaves_the_other_rows_alone(dtype):
    q, k, v = qkv_arrays(1, 4, 6, dtype=dtype)
    mask = np.tril(np.ones((4, 6), bool))
    whole = check(q, k, v, mask=mask[None, None], scale=0.125)
    mask[3] = False
    got = check(q, k, v, mask=mask[None, None], scale=0.125)
    assert (as64(got.weights)[..., 3, :] == 0).all()
    assert (as64(got.out)[..., 3, :] == 0).all()
    assert (got.lse[..., 3] == -np.inf).all()
    for one, other in zip(got, whole, strict=True):
        assert bits(one[:, :, :3]) == bits(other[:, :, :3])


# B001, every size and source: a row emptied by anything at all
@pytest.mark.parametrize("source", HIDERS)
@pytest.mark.parametrize(("n_q", "n_k"), SIZES)
def test_rows_emptied_by_any_source_are_zero_at_every_size(n_q, n_k, source):
    q, k, v = qkv_arrays(n_q + n_k, n_q, n_k, batch=2)
    arguments, visible = HIDERS[source](map_shape(q, k))
    check(q, k, v, visible=visible, **arguments)


# B003: pytorch/pytorch#160064
@pytest.mark.parametrize("n", [6, 130, 1025])
def test_a_head_hidden_whole_is_zero_with_and_without_its_weights(n):
    q, k, v = qkv_arrays(3, min(n, 130), n, heads=4, d_k=3)
    mask = np.ones((1, 4, q.shape[-2], n), bool)
    mask[:, 1] = False
    before = qkv.attention(q, k, v, mask=mask)
    a = qkv.attend(q, k, mask=mask)
    weights = np.asarray(a)
    assert bits(before) == bits(a @ v)
    assert (weights[:, 1] == 0).all()
    assert (before[:, 1] == 0).all()
    got = check(q, k, v, mask=mask)
    assert bits(got.out) == bits(before)
    assert bits(got.weights) == bits(weights)


# B007: unslothai/unsloth#9848
@pytest.mark.parametrize("n", [4, 129, 1025])
def test_left_padding_stays_zero_through_two_layers(n):
    (x,) = normal(7, (2, 1, n, 4))
    keep = np.ones((2, 1, 1, n), bool)
    keep[0, ..., : n // 2] = False
    first = check(x, x, x, mask=keep, causal=True)
    second = check(first.out, first.out, first.out, mask=keep, causal=True)
    for layer in (first, second):
        assert np.isfinite(layer.out).all()
        assert (layer.out[0, :, : n // 2] == 0).all()
        assert (layer.out[0, :, n // 2 :] != 0).any()


# B009: flashinfer-ai/flashinfer#4452
@pytest.mark.parametrize(("size", "dtype"), with_dtypes([(7, 3), (2, 1), (130, 2)], [(300, 129)]), ids=str)
def test_with_more_queries_than_keys_the_first_causal_rows_are_empty(size, dtype):
    n_q, n_k = size
    q, k, v = qkv_arrays(9, n_q, n_k, dtype=dtype)
    got = check(q, k, v, causal=True)
    missing = n_q - n_k
    assert (got.lse[..., :missing] == -np.inf).all()
    assert (as64(got.out)[..., :missing, :] == 0).all()
    assert np.isfinite(got.lse[..., missing:]).all()


# B011: flashinfer-ai/flashinfer#4484
@pytest.mark.parametrize(
    "arguments", [{}, {"causal": True}, {"window": (2, 0)}, {"softcap": 2.0}, {"lengths": [0, 0]}], ids=str
)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_attention_over_no_keys_at_all_is_zero(dtype, arguments):
    q, k, v = qkv_arrays(10, 3, 0, batch=2, d_k=4, d_v=5, dtype=dtype)
    got = check(q, k, v, **arguments)
    assert got.out.shape == (2, 2, 3, 5)
    assert (as64(got.out) == 0).all()
    assert got.weights.shape == (2, 2, 3, 0)
    assert got.lse.shape == (2, 2, 3)
    assert (got.lse == -np.inf).all()


# B011, with a sink: the sink is then the whole row
def test_with_a_sink_and_no_keys_lse_is_the_score_of_the_sink():
    q, k, v = qkv_arrays(11, 3, 0)
    got = check(q, k, v, sinks=np.array([0.5, -3.0], np.float32))
    np.testing.assert_array_equal(got.lse, np.broadcast_to(np.float32([[0.5], [-3.0]]), (1, 2, 3)))


@pytest.mark.parametrize(("batch", "heads", "n_q", "n_k"), [(0, 2, 3, 5), (2, 2, 0, 5), (0, 2, 0, 0), (1, 2, 0, 0)])
@pytest.mark.parametrize("causal", [False, True])
def test_any_size_may_be_zero(batch, heads, n_q, n_k, causal):
    q, k, v = qkv_arrays(12, n_q, n_k, batch=batch, heads=heads)
    got = check(q, k, v, causal=causal)
    assert got.out.shape == (batch, heads, n_q, 8)


def test_vectors_of_width_zero_all_agree_alike():
    got = check(np.zeros((1, 2, 3, 0)), np.zeros((1, 2, 5, 0)), np.ones((1, 2, 5, 0)))
    np.testing.assert_allclose(got.weights, 0.2, rtol=1e-15)
    assert got.out.shape == (1, 2, 3, 0)


def _parts(q, k, v, cuts, **arguments):
    """(out, lse) of each run of keys between the cuts."""
    edges = [0, *cuts, k.shape[-2]]
    for start, stop in pairwise(edges):
        a = qkv.attend(q, k[..., start:stop, :], **arguments)
        yield a @ v[..., start:stop, :], a.lse()


# B012: Dao-AILab/flash-attention#978
@pytest.mark.parametrize("empty_first", [True, False])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_merging_with_a_part_that_sees_nothing_gives_the_other_part(dtype, empty_first):
    q, k, v = qkv_arrays(12, 3, 5, heads=1, d_k=4, dtype=dtype)
    nothing, everything = (qkv.attend(q, k, mask=np.full((3, 5), seen)) for seen in (False, True))
    assert (nothing.lse() == -np.inf).all()
    parts = [(nothing @ v, nothing.lse()), (everything @ v, everything.lse())]
    out, lse = qkv.merge(parts if empty_first else parts[::-1])
    whole = check(q, k, v)
    assert out.dtype == q.dtype
    assert bits(out) == bits(whole.out)
    assert bits(lse) == bits(whole.lse)


# B012, every cut: parts over disjoint keys, empty ones among them
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("cuts", [(2,), (0, 2, 2, 5), (1, 2, 3, 4)], ids=str)
def test_merging_parts_of_the_keys_gives_the_whole(cuts, dtype):
    q, k, v = qkv_arrays(13, 3, 5, dtype=dtype)
    out, lse = qkv.merge(list(_parts(q, k, v, cuts)))
    exact, naive = exact_and_naive(q, k, v)
    assert_close_to_definition(out, exact.out, naive.out, dtype)
    assert_close_to_definition(lse, exact.lse, naive.lse, lse.dtype)


@pytest.mark.parametrize("cuts", [(1023,), (1, 1025), (512, 1024, 1536)], ids=str)
def test_merging_long_parts_gives_the_whole(cuts):
    q, k, v = qkv_arrays(14, 129, 2050)
    out, lse = qkv.merge(list(_parts(q, k, v, cuts)))
    exact, naive = exact_and_naive(q, k, v)
    assert_close_to_definition(out, exact.out, naive.out, np.float32)
    assert_close_to_definition(lse, exact.lse, naive.lse, np.float32)


def test_merging_nothing_but_empty_parts_is_empty():
    q, k, v = qkv_arrays(15, 3, 5)
    part = qkv.attend(q, k, mask=np.zeros((3, 5), bool))
    out, lse = qkv.merge([(part @ v, part.lse())] * 3)
    assert (out == 0).all()
    assert (lse == -np.inf).all()


# B015: microsoft/onnxruntime#28958
@pytest.mark.parametrize("n_q", [65535, 65537, 70000])
def test_empty_rows_are_zeroed_however_many_rows_there_are(n_q):
    q, k = np.ones((1, 1, n_q, 1), np.float32), np.ones((1, 1, 2, 1), np.float32)
    v = np.float32([2, 4]).reshape(1, 1, 2, 1)
    mask = np.zeros((n_q, 2), bool)
    mask[0] = mask[-1] = True
    want = np.zeros((1, 1, n_q, 1))
    want[0, 0, [0, -1]] = 3
    got = check(q, k, v, mask=mask)
    np.testing.assert_array_equal(got.out, want)
    assert (got.lse[..., 1:-1] == -np.inf).all()


# B141: TransformerLensOrg/TransformerLens#389
@pytest.mark.parametrize("source", HIDERS)
@pytest.mark.parametrize(("n_q", "n_k"), [(4, 4), (9, 4), (129, 1025)])
def test_the_map_is_the_one_that_made_the_output_in_empty_rows_too(n_q, n_k, source):
    q, k, v = qkv_arrays(16, n_q, n_k, d_k=4, dtype=np.float64)
    arguments, visible = HIDERS[source](map_shape(q, k))
    a = qkv.attend(q, k, **arguments)
    np.testing.assert_allclose(a @ v, np.asarray(a) @ v, rtol=1e-12, atol=1e-14)
    check(q, k, v, visible=visible, **arguments)


# B141 as reported: row 1 of four sees nothing
def test_an_empty_row_is_zero_in_map_and_output_alike():
    q, k, v = qkv_arrays(17, 4, 4, d_k=4)
    mask = np.array([[1, 0, 0, 0], [0, 0, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]], bool)
    got = check(q, k, v, mask=mask)
    assert (got.weights[..., 1, :] == 0).all()
    assert (got.out[..., 1, :] == 0).all()
    assert_close_to_definition(got.out, as64(got.weights) @ as64(v), [got.weights @ v], np.float32)
