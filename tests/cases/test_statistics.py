"""Numbers about a map: natural logarithms, ties to the lower key, nothing counted for rows without keys."""

from __future__ import annotations

import math

import numpy as np
import pytest

import qkv
from cases.definition import BFLOAT16, DTYPES, as64, assert_close_to_definition, check, qkv_arrays
from qkv import measures


def map_of(weights, hide_zeros=True):
    """A map with exactly these weights as a share of each row: a bias of log(weight) over scores of 0.

    A weight of 0 is a hidden key, or with hide_zeros=False a visible one that loses by 10⁴ nats.
    """
    weights = np.asarray(weights, np.float64)
    n_q, n_k = weights.shape
    with np.errstate(divide="ignore"):
        bias = np.log(weights)
    if not hide_zeros:
        bias = np.where(np.isneginf(bias), -1e4, bias)
    return qkv.attend(np.zeros((n_q, 1)), np.zeros((n_k, 1)), bias=bias)


# B169: huggingface/trl#7221
@pytest.mark.parametrize("hide_zeros", [True, False])
def test_a_weight_of_zero_adds_nothing_to_the_entropy(hide_zeros):
    weights = [[1, 0, 0], [0.5, 0.5, 0], [1 / 3, 1 / 3, 1 / 3], [0, 0, 0]]
    a = map_of(weights, hide_zeros)
    # Losing by as much as every other key is no loss: without hiding, the last row is even.
    want = np.array([0, math.log(2), math.log(3), 0 if hide_zeros else math.log(3)])
    np.testing.assert_allclose(a.entropy(), want, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(a.entropy(unit="bits"), want / math.log(2), rtol=1e-12, atol=1e-12)
    effective = np.exp(want) * np.asarray(a).any(-1)
    np.testing.assert_allclose(a.measure(measures.effective_keys())[0], effective, rtol=1e-12)


# B169, causal maps always hold zeros
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("n_q", "n_k"), [(5, 5), (7, 3), (129, 1025), (2, 2050)])
def test_entropy_of_a_causal_map_is_finite_and_zero_on_empty_rows(n_q, n_k, dtype):
    q, k, v = qkv_arrays(169, n_q, n_k, dtype=dtype)
    got = check(q, k, v, causal=True)
    entropy = qkv.attend(q, k, causal=True).entropy()
    q64, k64 = q.astype(np.float64), k.astype(np.float64)
    w = np.asarray(qkv.attend(q64, k64, causal=True))
    want = -np.sum(w * np.log(np.where(w > 0, w, 1)), axis=-1)
    assert (entropy[got.lse == -np.inf] == 0).all()
    np.testing.assert_allclose(entropy, want, rtol=1e-5, atol=1e-5)
    keys = np.maximum(np.arange(n_q) + 1 + n_k - n_q, 1)
    assert (entropy <= np.log(keys) * (1 + 1e-6)).all()
    assert (entropy >= 0).all()


TIES = [[0.2, 0.2, 0.2, 0.2, 0.2], [0.1, 0.4, 0.1, 0.4, 0], [0, 0, 1, 0, 0]]


# B172: pytorch/pytorch#133542
def test_of_equal_weights_the_lower_key_comes_first():
    top = map_of(TIES, hide_zeros=False).top(3)
    np.testing.assert_array_equal(top.key, [[0, 1, 2], [1, 3, 0], [2, 0, 1]])
    want = [[0.2, 0.2, 0.2], [0.4, 0.4, 0.1], [1, 0, 0]]
    np.testing.assert_allclose(top.weight, want, rtol=1e-15)
    np.testing.assert_allclose(top.rest, [0.4, 0.1, 0], rtol=1e-12, atol=1e-15)


# B172, where a zero is a hidden key it is no key at all
def test_past_the_visible_keys_top_says_weight_zero_and_key_minus_one():
    top = map_of(TIES).top(3)
    np.testing.assert_array_equal(top.key, [[0, 1, 2], [1, 3, 0], [2, -1, -1]])
    np.testing.assert_array_equal(top.weight[2], [1, 0, 0])


# B172, ties across tiles, and everything tied
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n_k", [5, 1024, 1025, 2050, 3100])
def test_ties_across_tiles_go_to_the_lower_key(n_k, dtype):
    q, k = np.zeros((1, 2, 3, 4), dtype), np.zeros((1, 2, n_k, 4), dtype)
    top = qkv.attend(q, k).top(4)
    np.testing.assert_array_equal(top.key, np.broadcast_to(np.arange(4), (1, 2, 3, 4)))
    bias = np.zeros(n_k, np.float32)
    bias[[n_k - 1, n_k // 2]] = 1
    top = qkv.attend(q, k, bias=bias).top(4)
    np.testing.assert_array_equal(top.key, np.broadcast_to([n_k // 2, n_k - 1, 0, 1], (1, 2, 3, 4)))


# B172 on random maps: the order is that of a stable sort
@pytest.mark.parametrize("arguments", [{}, {"causal": True}, {"window": (700, 0)}], ids=str)
def test_top_is_a_stable_sort_of_the_row(arguments):
    q, k, _ = qkv_arrays(172, 130, 1030, dtype=np.float64)
    a = qkv.attend(np.round(2 * q), np.round(2 * k), **arguments)  # whole numbers: exact scores, hence many ties
    weights = np.asarray(a)
    top = a.top(9)
    key = np.argsort(-weights, axis=-1, kind="stable")[..., :9]
    np.testing.assert_array_equal(top.key, key)
    np.testing.assert_allclose(top.weight, np.take_along_axis(weights, key, -1), rtol=1e-12)


# B173: pytorch/pytorch#27542
def test_the_first_of_many_are_the_first_of_few():
    a = map_of([[0.1, 0.2, 0.25, 0.2, 0.25]])
    five = a.top(5)
    np.testing.assert_array_equal(five.key, [[2, 4, 1, 3, 0]])
    np.testing.assert_allclose(five.weight, [[0.25, 0.25, 0.2, 0.2, 0.1]], rtol=1e-14)
    for j in range(1, 6):
        few = a.top(j)
        np.testing.assert_array_equal(few.key, five.key[:, :j])
        np.testing.assert_array_equal(few.weight, five.weight[:, :j])


# B173, more than there are: the same sentinel as past the visible keys
def test_asking_for_more_keys_than_there_are_fills_up_with_minus_one():
    many = map_of([[0.1, 0.2, 0.25, 0.2, 0.25]]).top(8)
    np.testing.assert_array_equal(many.key, [[2, 4, 1, 3, 0, -1, -1, -1]])
    np.testing.assert_array_equal(many.weight[:, 5:], [[0, 0, 0]])
    np.testing.assert_allclose(many.rest, 0, atol=1e-15)


@pytest.mark.parametrize("n_k", [9, 1025, 2050])
def test_top_of_any_number_is_a_prefix_of_a_longer_one(n_k):
    q, k, _ = qkv_arrays(173, 5, n_k)
    a = qkv.attend(q, k)
    longest = a.top(9)
    for j in (1, 2, 5, 8):
        top = a.top(j)
        np.testing.assert_array_equal(top.key, longest.key[..., :j])
        np.testing.assert_array_equal(top.weight, longest.weight[..., :j])


# B174: flashinfer-ai/flashinfer#2113
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n_k", [1, 8, 1024, 1025, 2050])
def test_lse_is_a_natural_logarithm(n_k, dtype):
    got = check(np.zeros((1, 1, 1, 1), dtype), np.zeros((1, 1, n_k, 1), dtype), np.ones((1, 1, n_k, 1), dtype))
    assert_close_to_definition(got.lse.ravel(), [math.log(n_k)], [], got.lse.dtype)
    np.testing.assert_allclose(as64(got.out), 1, rtol=1e-6)


def _entropies(n_k):
    q, k, _ = qkv_arrays(175, 3, n_k, dtype=np.float64)
    a = qkv.attend(q, k)
    return a, a.lse() - np.einsum("...ij,...ij->...i", np.asarray(a), np.asarray(a.scores("biased")))


# B174: what an lse in another base would break
@pytest.mark.parametrize("n_k", [8, 1025])
def test_entropy_is_lse_minus_the_mean_score(n_k):
    a, want = _entropies(n_k)
    np.testing.assert_allclose(a.entropy(), want, rtol=1e-12)


# B175: microsoft/onnxruntime#28958
@pytest.mark.parametrize("hide_zeros", [True])
def test_an_empty_row_gives_no_key_anything(hide_zeros):
    a = map_of([[0, 0, 0], [0.5, 0.5, 0], [0.2, 0.3, 0.5]], hide_zeros)
    received = a.received()
    np.testing.assert_allclose(received, [0.7, 0.8, 0.5], rtol=1e-12)
    np.testing.assert_allclose(received.sum(), 2, rtol=1e-15)


# B175, every size and dtype: what all keys receive is the number of rows that see any
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("n_q", "n_k"), [(7, 3), (130, 2), (129, 1025), (300, 260)])
def test_all_keys_together_receive_one_share_per_row_that_sees_any(n_q, n_k, dtype):
    q, k, _ = qkv_arrays(176, n_q, n_k, dtype=dtype)
    a = qkv.attend(q, k, causal=True)
    received = as64(a.received())
    assert received.shape == (1, 2, n_k)
    np.testing.assert_allclose(received.sum(-1), np.isfinite(as64(a.lse())).sum(-1), rtol=1e-5)
    if dtype.itemsize > 2:
        np.testing.assert_allclose(received, as64(a).sum(-2), rtol=1e-5, atol=1e-6)


def test_what_a_sink_takes_no_key_receives():
    q, k, _ = qkv_arrays(177, 5, 7, dtype=BFLOAT16)
    a = qkv.attend(q, k, sinks=np.float32([1, -2]))
    taken = np.exp(np.float32([1, -2])[:, None] - as64(a.lse()))
    np.testing.assert_allclose(as64(a.received()).sum(-1), (1 - taken).sum(-1), rtol=1e-5)
