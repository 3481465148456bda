"""Laws of distance, duplicates, saturation, contribution and score spread."""

import numpy as np
import pytest

import qkv
from cases.definition import normal, qkv_arrays
from dense import PROBLEMS, problem
from qkv import masks, measures


def measured(A, value):
    return A.measure(value)[0]


@pytest.mark.parametrize(("shift", "bin_"), [(0, 9), (1, 10), (2, 11), (3, 11), (4, 12), (-1, 8), (-2, 7), (-3, 7)])
def test_a_map_that_looks_a_fixed_way_off_has_that_distance_and_no_variance(shift, bin_):
    q, k = normal(1, (300, 4), (300, 4))
    A = qkv.attend(q, k, mask=masks.window(0, 0, offset=-shift))
    mean, variance, edges, histogram = measured(A, measures.distance(offset=0))
    seen = (np.arange(300) - shift >= 0) & (np.arange(300) - shift < 300)
    np.testing.assert_array_equal(mean, np.where(seen, shift, 0))
    assert (variance == 0).all()
    assert edges[bin_] <= shift < edges[bin_ + 1]
    np.testing.assert_array_equal(histogram, np.where(np.arange(len(histogram)) == bin_, seen.sum(), 0))


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_histogram_of_distances_holds_all_weight_there_is(name):
    q, k, arguments = problem(name, np.float64)
    A = qkv.attend(q, k, **arguments)
    everything = A.received().sum(-1)
    for value in (measures.distance(), measures.distance(absolute=True), measures.distance(offset=-50)):
        np.testing.assert_allclose(measured(A, value).histogram.sum(-1), everything, rtol=1e-12)


def test_the_bins_of_distance_double_and_reach_as_far_as_the_map():
    A = qkv.attend(np.zeros((3, 1)), np.zeros((9, 1)))  # aligned: 6, 7, 8
    got = measured(A, measures.distance())
    np.testing.assert_array_equal(got.edges, [-3, -1, 0, 1, 2, 4, 8, 16])
    np.testing.assert_allclose(got.histogram * 9, [1, 2, 3, 3, 6, 11, 1], rtol=1e-12)
    np.testing.assert_array_equal(measured(A, measures.distance(offset=8)).edges, [0, 1, 2, 4, 8, 16])


def test_absolute_distance_is_the_distance_where_nobody_looks_ahead():
    q, k, _ = qkv_arrays(2, 150, 150)
    A = qkv.attend(q, k, causal=True)
    signed, absolute = A.measure(measures.distance(), measures.distance(absolute=True))
    np.testing.assert_allclose(signed.mean, absolute.mean, rtol=1e-6)
    np.testing.assert_allclose(signed.variance, absolute.variance, rtol=1e-5)
    np.testing.assert_array_equal(signed.histogram[..., -len(absolute.edges) + 1 :], absolute.histogram)
    assert (signed.histogram[..., : 1 - len(absolute.edges)] == 0).all()


def test_the_variance_of_a_distance_does_not_depend_on_how_far_it_is():
    q, k, _ = qkv_arrays(2, 130, 1100)
    A = qkv.attend(q, k)
    near, far = A.measure(measures.distance(offset=0), measures.distance(offset=2**22))
    np.testing.assert_allclose(far.variance, near.variance, rtol=1e-6)
    np.testing.assert_allclose(far.mean, near.mean + 2**22, rtol=1e-6)


def test_each_sequence_of_a_batch_may_have_its_own_offset():
    q, k, _ = qkv_arrays(3, 6, 9, batch=2)
    A = qkv.attend(q, k)
    both = measured(A, measures.distance(offset=np.array([2, 5])))
    for b, offset in enumerate((2, 5)):
        one = measured(A[b], measures.distance(offset=np.array([offset, offset])))
        np.testing.assert_array_equal(both.mean[b], one.mean)
        np.testing.assert_array_equal(both.variance[b], one.variance)


def test_a_grid_of_one_row_is_a_sequence_and_its_patches_have_a_size():
    q, k = normal(4, (140, 3), (140, 3), dtype=np.float64)
    A = qkv.attend(q, k)
    line, row, column, large = A.measure(
        measures.distance(absolute=True), measures.distance(grid=(1, 140)), measures.distance(grid=(140, 1)),
        measures.distance(grid=(1, 140), patch=16),
    )  # fmt: skip
    for one, other in zip(line, row, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    np.testing.assert_array_equal(column.mean, row.mean)
    np.testing.assert_allclose(large.mean, 16 * row.mean, rtol=1e-15)
    np.testing.assert_allclose(large.variance, 256 * row.variance, rtol=1e-15)
    np.testing.assert_array_equal(large.edges, 16 * row.edges)
    np.testing.assert_array_equal(large.histogram, row.histogram)


def test_what_a_class_token_gives_or_gets_has_no_distance():
    q, k = normal(5, (17, 3), (17, 3), dtype=np.float64)
    got = measured(qkv.attend(q, k), measures.distance(grid=(4, 4), class_tokens=1))
    alone = measured(qkv.attend(q[1:], k[1:]), measures.distance(grid=(4, 4)))
    assert got.mean[0] == got.variance[0] == 0
    np.testing.assert_allclose(got.mean[1:], alone.mean, rtol=1e-12)
    np.testing.assert_allclose(got.histogram.sum(), np.asarray(qkv.attend(q, k))[1:, 1:].sum(), rtol=1e-12)


def test_of_one_token_all_earlier_keys_are_duplicates_and_of_different_tokens_none():
    q, k, _ = qkv_arrays(6, 140, 140, dtype=np.float64)
    A = qkv.attend(q, k, causal=True)
    same, none, pairs = A.measure(*(measures.duplicate(ids) for ids in (np.zeros(140, int), *(range(140), [0] * 140))))
    np.testing.assert_allclose(same + measured(A, measures.diagonal()), 1, rtol=1e-12)
    assert (none == 0).all()
    np.testing.assert_array_equal(pairs, same)


def test_a_query_that_stands_outside_of_the_keys_has_no_duplicate():
    A = qkv.attend(np.zeros((4, 2)), np.zeros((4, 2)))
    before, after = A.measure(measures.duplicate([7] * 4, offset=-10), measures.duplicate([7] * 4, offset=10))
    assert (before == 0).all() and (after == 0).all()


@pytest.mark.parametrize("n", [1, 7, 2000])
def test_an_even_row_has_the_most_slope_and_a_row_of_one_key_none(n):
    even = qkv.attend(np.zeros((3, 2)), np.zeros((n, 2)))
    slope, share = measured(even, measures.saturation())
    np.testing.assert_allclose(slope, 1 - 1 / n, rtol=1e-12)
    assert share == (n == 1)
    sharp = qkv.attend(np.full((3, 1), 1e4), np.arange(n)[:, None] / n, scale=1e4)
    slope, share = measured(sharp, measures.saturation())
    assert (slope == 0).all() and share == 1


def test_rows_that_see_no_key_are_not_counted_as_saturated_or_not():
    mask = np.array([[True, False], [False, False], [True, True], [False, False]])
    A = qkv.attend(np.zeros((4, 2)), np.zeros((2, 2)), mask=mask)
    slope, share = measured(A, measures.saturation())
    np.testing.assert_array_equal(slope, [0, 0, 0.5, 0])
    assert share == 0.5
    assert measured(qkv.attend(np.zeros((4, 2)), np.zeros((2, 2)), mask=mask[1]), measures.saturation()).share == 0


def test_scores_of_independent_entries_spread_by_one_under_the_usual_scale():
    for width in (4, 64, 512):
        q, k = normal(width, (400, width), (400, width))
        overall = measured(qkv.attend(q, k), measures.spread()).overall
        assert abs(overall - 1) < 0.05
        np.testing.assert_allclose(measured(qkv.attend(q, k, scale=1), measures.spread()).overall, overall * width**0.5)


def test_the_spread_of_scores_is_right_far_from_zero_and_blind_to_bias_and_softcap():
    k = (3e4 + normal(7, (3000, 1))[0]).astype(np.float32)
    A = qkv.attend(np.ones((2, 1), np.float32), k)
    mean, deviation, overall = measured(A, measures.spread())
    np.testing.assert_allclose(deviation, np.std(k.astype(np.float64)), rtol=1e-6)
    np.testing.assert_allclose(overall, deviation[0], rtol=1e-6)
    np.testing.assert_allclose(mean, k.astype(np.float64).mean(), rtol=1e-7)
    bent = qkv.attend(np.ones((2, 1), np.float32), k, softcap=1, bias=np.linspace(0, 9, 3000, dtype=np.float32))
    for one, other in zip(measured(bent, measures.spread()), (mean, deviation, overall), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_hidden_score_is_not_in_the_spread():
    k = np.array([[1.0], [np.nan], [3.0], [np.inf]])
    A = qkv.attend(np.array([[1.0], [1.0]]), k, mask=np.array([[True, False, True, False], [False] * 4]))
    mean, deviation, overall = measured(A, measures.spread())
    np.testing.assert_array_equal(mean, [2, 0])
    np.testing.assert_array_equal(deviation, [1, 0])
    assert overall == 1


def test_contribution_through_the_identity_is_what_a_key_receives_times_the_length_of_its_value():
    q, k, v = qkv_arrays(8, 140, 1100, heads=4, kv_heads=2, d_v=3, batch=2, dtype=np.float64)
    A = qkv.attend(q, k, causal=True)
    got = measured(A, measures.contribution(v, np.tile(np.eye(3), (4, 1))))
    want = A.received() * np.linalg.norm(v, axis=-1).repeat(2, axis=1)
    np.testing.assert_allclose(got, want, rtol=1e-12)


def test_contribution_takes_the_lengths_that_a_layer_says_its_values_have():
    x, *w = normal(9, (2, 30, 12), (12, 24), (12, 12), (12, 12), (24, 9), dtype=np.float64)
    layer = qkv.MultiHead(*w, n_heads=4, n_kv_heads=2, b_v=np.arange(12.0))
    _, _, v = layer.project(x)
    A = layer.map(x, causal=True)
    got = measured(A, measures.contribution(v, layer.w_o))
    np.testing.assert_allclose(got, A.received() * layer.value_norms(v), rtol=1e-12)
    np.testing.assert_array_equal(measured(A[1, 2], measures.contribution(v, layer.w_o)), got[1, 2])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_value_that_nobody_sees_contributes_nothing_whatever_it_is(bad):
    v = np.array([[1.0, 0], [bad, bad], [0, 2]])
    A = qkv.attend(np.zeros((4, 2)), np.zeros((3, 2)), mask=np.array([True, False, True]))
    np.testing.assert_array_equal(measured(A, measures.contribution(v, np.eye(2))), [2, 0, 4])
