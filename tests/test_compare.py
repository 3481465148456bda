"""The maps that a map is held against: one that prefers no key, and one with the lengths of the values in it."""

import numpy as np
import pytest

import qkv
from qkv import _compare, biases, masks
from qkv.errors import ShapeError


@pytest.fixture
def arrays():
    return np.random.default_rng(0).standard_normal((2, 3, 4, 7, 5))


MASKS = [None, masks.causal(), masks.causal() & masks.window(2, 0), masks.lengths([7, 4, 5])]


@pytest.mark.parametrize("mask", MASKS, ids=str)
def test_an_even_map_gives_each_visible_key_the_same(arrays, mask):
    A = qkv.attend(*arrays, mask=mask, bias=biases.alibi(), softcap=20.0)
    sees = np.isfinite(A.scores("biased").dense())
    np.testing.assert_allclose(np.asarray(_compare.even(A)), sees / sees.sum(axis=-1, keepdims=True), atol=1e-15)


def test_what_a_bias_hides_an_even_map_hides_too(arrays):
    bias = np.where(np.arange(7) == 3, -np.inf, 0.5)
    A = _compare.even(qkv.attend(*arrays, bias=bias))
    np.testing.assert_allclose(np.asarray(A), np.broadcast_to((np.arange(7) != 3) / 6, A.shape), atol=1e-15)


@pytest.mark.parametrize("mask", MASKS, ids=str)
@pytest.mark.parametrize("sinks", [None, [0.0, 1.0, -1.0, 2.0]], ids=["no sink", "sinks"])
def test_a_value_weighted_map_is_weight_times_norm_over_its_row(arrays, mask, sinks):
    norms = np.random.default_rng(1).random((3, 4, 7))
    norms[..., 2] = 0
    A = qkv.attend(*arrays, mask=mask, sinks=sinks, bias=biases.alibi())
    moved = np.asarray(A) * norms[..., None, :]
    np.testing.assert_allclose(
        np.asarray(_compare.value_weighted(A, norms)), moved / moved.sum(axis=-1, keepdims=True), atol=1e-14
    )


def test_a_row_that_moves_nothing_is_zero(arrays):
    assert not np.asarray(_compare.value_weighted(qkv.attend(*arrays), np.zeros((3, 4, 7)))).any()


def test_a_part_of_a_map_is_refused(arrays):
    part = qkv.attend(*arrays)[0]
    for compare in (_compare.even, _compare.in_numpy, lambda A: _compare.value_weighted(A, np.ones((4, 7)))):
        with pytest.raises(ShapeError, match="expected the whole map"):
            compare(part)


def test_norms_of_another_shape_are_refused(arrays):
    with pytest.raises(ShapeError, match="norms"):
        _compare.value_weighted(qkv.attend(*arrays), np.ones((3, 4, 6)))
