"""Why √d_k, measured: the figures are those of the lesson, and their standard errors are earned."""

import dataclasses
import itertools
import math

import numpy as np
import pytest

from command import needs_minilm
from qkv import attend, biases, experiments, formula, models
from qkv.errors import ArgumentError
from qkv.experiments import Estimate

RNG = np.random.default_rng(50)


def near(estimate, expected, errors=4):
    assert abs(estimate.value - expected) <= errors * estimate.standard_error


def figures(thing):
    """Every estimate in a result, by its path of names."""
    for field in dataclasses.fields(thing):
        value = getattr(thing, field.name)
        if isinstance(value, Estimate):
            yield field.name, value
        elif dataclasses.is_dataclass(value):
            yield from ((f"{field.name}.{name}", each) for name, each in figures(value))


# ---- saturation --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("d_k", "largest"), [(4, 0.4922), (64, 0.8648), (1024, 0.9665)])
def test_unscaled_the_mean_largest_of_ten_weights_climbs_as_in_the_lesson(d_k, largest):
    (found,) = experiments.saturation([d_k], n_draws=3000)
    assert found.raw.largest.standard_error < 0.005
    near(found.raw.largest, largest)


@pytest.mark.parametrize(("d_k", "entropy"), [(64, 1.925), (256, 1.924)])
def test_scaled_it_is_0_32_and_1_92_nats_at_every_width_from_64(d_k, entropy):
    (found,) = experiments.saturation([d_k], n_draws=10_000)
    near(found.scaled.largest, 0.3194)
    near(found.scaled.entropy, entropy)


def test_with_the_width_raw_rows_harden_and_scaled_rows_stay_as_they_are():
    found = experiments.saturation()
    assert [each.d_k for each in found] == list(experiments.WIDTHS)
    for narrow, wide in itertools.pairwise(found):
        assert wide.raw.largest.value > narrow.raw.largest.value
        assert wide.raw.entropy.value < narrow.raw.entropy.value
        assert wide.raw.saturated.value > narrow.raw.saturated.value
        apart = math.hypot(wide.scaled.largest.standard_error, narrow.scaled.largest.standard_error)
        assert abs(wide.scaled.largest.value - narrow.scaled.largest.value) < max(4 * apart, 0.015)
    assert found[-1].raw.entropy.value < 0.1
    assert {each.scaled.saturated.value for each in found} == {0}


def test_raw_scores_are_scaled_ones_at_the_temperature_one_over_root_d_k():
    (cold,) = experiments.temperature([1 / 8], d_k=64)
    (at_64,) = experiments.saturation([64])
    for (name, one), (_, other) in zip(figures(cold.sharpness), figures(at_64.raw), strict=True):
        assert dataclasses.astuple(one) == pytest.approx(dataclasses.astuple(other), rel=1e-12), name


def test_more_keys_share_a_row_among_more():
    few, many = (experiments.saturation([64], n_keys)[0].scaled for n_keys in (4, 100))
    assert few.largest.value > many.largest.value
    assert few.entropy.value < many.entropy.value < math.log(100)


# ---- temperature -------------------------------------------------------------------------------------------


def test_temperature_goes_from_the_loudest_key_to_a_tenth_for_each_of_ten():
    found = experiments.temperature([1e-6, 0.1, 1, 10, 1e6])
    for cold, hot in itertools.pairwise(found):
        assert cold.sharpness.largest.value > hot.sharpness.largest.value
        assert cold.sharpness.entropy.value < hot.sharpness.entropy.value
    assert found[0].sharpness.largest.value == pytest.approx(1, abs=1e-3)
    assert found[-1].sharpness.largest.value == pytest.approx(1 / 10, rel=1e-5)
    assert found[-1].sharpness.entropy.value == pytest.approx(math.log(10), rel=1e-9)
    assert max(found, key=lambda each: each.top.value).temperature == 1


# ---- the variance argument ---------------------------------------------------------------------------------


def test_a_product_has_mean_0_and_variance_1_and_a_score_the_sum_of_d_k_of_them():
    for found in experiments.variance(n_draws=4000):
        near(found.product_mean, 0)
        near(found.product, 1)
        near(found.raw, found.d_k)
        near(found.scaled, 1)
        assert found.raw.value == pytest.approx(found.d_k * found.scaled.value, rel=1e-12)


# ---- gradients ---------------------------------------------------------------------------------------------


def jacobian(weight):
    return np.diag(weight) - np.outer(weight, weight)


def test_the_slope_is_the_derivative_of_a_weight_by_its_own_score():
    score = RNG.standard_normal(7)
    step = 1e-6 * np.eye(7)
    numeric = (formula.weight(score + step) - formula.weight(score - step)) / 2e-6
    assert experiments.slope(formula.weight(score[None])[0]) == pytest.approx(np.diag(numeric), rel=1e-7)
    assert numeric == pytest.approx(jacobian(formula.weight(score[None])[0]), abs=1e-9)


@pytest.mark.parametrize("spread", [0.1, 1, 10, 100])
def test_the_norm_of_the_jacobian_is_that_of_the_matrix_however_hard_the_softmax(spread):
    score = spread * RNG.standard_normal((50, 9)).astype(np.longdouble)
    weight = formula.weight(score)
    exact = [np.sqrt((jacobian(row) ** 2).sum()) for row in weight]
    assert experiments.jacobian_norm(weight.astype(np.float64)) == pytest.approx(np.array(exact, float), rel=1e-6)


def test_the_norm_of_the_jacobian_is_0_for_one_key_and_one_that_has_all():
    assert experiments.jacobian_norm(np.array([[1.0], [1.0]])).tolist() == [0, 0]
    assert experiments.jacobian_norm(np.array([1.0, 0.0, 0.0])) == 0


def test_two_keys_eight_apart_let_0_0003_through_and_scaled_0_197_almost_600_times_as_much():
    raw, scaled = (experiments.slope(formula.weight(np.array([[top, 0.0]])))[0, 0] for top in (8.0, 1.0))
    assert (round(raw, 4), round(scaled, 3)) == (0.0003, 0.197)
    assert 580 < scaled / raw < 600


def test_the_gradient_at_the_query_is_that_of_the_formula():
    (found,) = experiments.gradient([8], n_keys=5, n_draws=2)
    ((q, k),) = experiments._draws(8, 5, 2, seed=0)
    step = 1e-6 * np.eye(8)
    for slope, scale in ((found.raw, 1.0), (found.scaled, 8**-0.5)):
        norms = []
        for one, keys in zip(q, k, strict=True):
            up, down = (formula.weight(formula.score(one + each, keys, scale)) for each in (step, -step))
            norms.append(np.linalg.norm((up - down) / 2e-6))
        assert slope.query.value == pytest.approx(np.mean(norms), rel=1e-7)


def test_wide_and_raw_the_typical_query_gets_no_gradient_and_the_mean_does_not_tell():
    narrow, wide = experiments.gradient([4, 1024])
    assert wide.raw.top_median.value < 1e-4
    assert narrow.raw.top_median.value > 0.2
    assert wide.raw.query_median.value < 0.01
    assert wide.raw.query.value > narrow.raw.query.value  # a few undecided queries, 32 times as loud
    for slope in (narrow.scaled, wide.scaled):
        assert slope.top_median.value == pytest.approx(0.2, abs=0.01)
        assert slope.query_median.value == pytest.approx(0.33, abs=0.02)


# ---- heads -------------------------------------------------------------------------------------------------


def test_the_slices_add_up_to_the_full_score_whatever_the_number_of_heads():
    assert all(each.gap < 1e-12 for each in experiments.split())


def test_one_head_is_the_full_width():
    (whole,) = experiments.split([1], width=64)
    (at_64,) = experiments.saturation([64])
    assert dataclasses.astuple(whole.largest) == pytest.approx(dataclasses.astuple(at_64.scaled.largest), rel=1e-12)
    assert (whole.distinct.value, whole.disagreement.value) == (1, pytest.approx(0, abs=1e-15))


def test_more_heads_are_as_decided_and_look_at_more_different_keys():
    found = experiments.split()
    for few, many in itertools.pairwise(found):
        assert many.d_k * many.n_heads == few.d_k * few.n_heads == 64
        assert many.distinct.value > few.distinct.value
        assert many.disagreement.value > few.disagreement.value
        assert many.disagreement.value < math.log(many.n_heads)
        assert many.largest.value == pytest.approx(few.largest.value, abs=0.015)
        assert many.distinct.value <= min(many.n_heads, many.n_keys)


# ---- trained heads -----------------------------------------------------------------------------------------


def test_before_training_the_scores_of_a_row_spread_by_1():
    found = experiments.untrained()
    assert len(found) == 12
    for head in found:
        assert head.spread.value == pytest.approx(1, abs=0.12)
        assert head.divisor == pytest.approx(math.sqrt(32))
        assert head.needed == pytest.approx(head.divisor * head.spread.value, rel=1e-12)


def test_after_training_they_spread_by_what_was_learned():
    pytest.importorskip("safetensors", reason="safetensors is not installed")
    model = models.load("induction")
    first, second = (experiments.spread(layer) for layer in model.run(model.tokens(model.default_text)[0]).maps)
    assert min(head.spread.value for head in first) > 2
    assert min(head.spread.value for head in second) > 4
    assert min(head.needed for head in second) > 4 * math.sqrt(16)


@needs_minilm
def test_in_minilm_one_head_spreads_ten_times_as_much_as_another():
    model = models.load("minilm")
    maps = model.run(model.tokens(model.default_text)[0]).maps
    found = [head.spread.value for layer in maps for head in experiments.spread(layer)]
    assert len(found) == 72
    assert max(found) > 10 * min(found)
    assert min(found) < 1 < np.median(found)


def test_the_right_width_is_that_of_a_head_not_of_the_model():
    q, k = RNG.standard_normal((2, 8, 400, 64))
    by_head, by_model = attend(q, k), attend(q, k, scale=1 / math.sqrt(512))
    assert np.mean([each.spread.value for each in experiments.spread(by_head)]) == pytest.approx(1, abs=0.02)
    too_small = np.mean([each.spread.value for each in experiments.spread(by_model)])
    assert too_small == pytest.approx(math.sqrt(64 / 512), abs=0.01)
    assert experiments.spread(by_model)[0].divisor == pytest.approx(math.sqrt(512))


def test_the_spread_is_over_visible_keys_and_before_the_bias():
    q, k = RNG.standard_normal((2, 3, 12, 8))
    k[:, -1] = 1e6  # hidden from every row but the last
    causal = attend(q, k, causal=True)
    found = experiments.spread(causal)
    for h, head in enumerate(found):
        rows = [formula.score(q[h], k[h])[i, : i + 1].std() for i in range(1, 12)]
        assert head.spread.n == 11  # the first query sees one key, which spreads by nothing
        assert head.spread.value == pytest.approx(np.mean(rows), rel=1e-12)
    biased = experiments.spread(attend(q, k, causal=True, bias=biases.alibi()))
    assert [each.spread for each in biased] == [each.spread for each in found]


def test_temperature_counts_as_part_of_the_divisor():
    q, k = RNG.standard_normal((2, 1, 20, 16))
    (plain,), (warm,) = (experiments.spread(attend(q, k, temperature=t)) for t in (1.0, 2.0))
    assert warm.divisor == pytest.approx(2 * plain.divisor)
    assert warm.needed == pytest.approx(plain.needed)


# ---- seeds and standard errors -----------------------------------------------------------------------------

SMALL = {
    "variance": lambda seed: experiments.variance([4], n_draws=300, seed=seed)[0],
    "saturation": lambda seed: experiments.saturation([16], n_draws=300, seed=seed)[0],
    "temperature": lambda seed: experiments.temperature([0.5], d_k=8, n_draws=300, seed=seed)[0],
    "gradient": lambda seed: experiments.gradient([32], n_draws=300, seed=seed)[0],
    "split": lambda seed: experiments.split([4], width=16, n_draws=300, seed=seed)[0],
}


@pytest.mark.parametrize("name", SMALL)
def test_a_seed_gives_the_same_figures_and_another_seed_others(name):
    assert SMALL[name](3) == SMALL[name](3)
    assert SMALL[name](3) != SMALL[name](4)


@pytest.mark.parametrize("name", SMALL)
def test_a_standard_error_is_how_far_other_seeds_are_off(name):
    runs = [dict(figures(SMALL[name](seed))) for seed in range(60)]
    for path in runs[0]:
        values = np.array([run[path].value for run in runs])
        said = np.mean([run[path].standard_error for run in runs])
        if said:  # where nothing varies, as the share of saturated rows at a high temperature, it is 0
            assert 0.7 < values.std(ddof=1) / said < 1.4, path


def test_the_figures_of_a_width_do_not_depend_on_which_others_are_asked_for():
    assert experiments.saturation([4, 64])[1] == experiments.saturation([64])[0]


def test_numbers_drawn_in_parts_are_as_many():
    parts = list(experiments._draws(1024, 10, 500, seed=0))
    assert len(parts) > 1
    assert sum(len(q) for q, _ in parts) == sum(len(k) for _, k in parts) == 500


def test_an_estimate_says_value_standard_error_and_number():
    assert dataclasses.astuple(Estimate.mean(np.array([1.0, 2.0, 3.0]))) == (2, pytest.approx(3**-0.5), 3)
    middle = Estimate.median(np.arange(101.0))
    assert (middle.value, middle.n) == (50, 101)
    assert middle.standard_error == pytest.approx(6, abs=1)  # √101 / 2 places to either side
    assert Estimate.mean(np.array([1.0])).standard_error == math.inf
    with pytest.raises(dataclasses.FrozenInstanceError):
        middle.value = 0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: experiments.saturation([0]), "width must be a whole number of at least 1, got 0"),
        (lambda: experiments.saturation(n_keys=0), "n_keys"),
        (lambda: experiments.gradient(n_draws=1), "n_draws must be a whole number of at least 2, got 1"),
        (lambda: experiments.variance([2.5]), "got 2.5"),
        (lambda: experiments.temperature([0.0]), "temperatures must be finite and above 0, got 0.0"),
        (lambda: experiments.temperature([math.nan]), "got nan"),
        (lambda: experiments.split([3]), "n_heads must divide width = 64, got 3"),
        (lambda: experiments.untrained(n_heads=0), "n_heads"),
        (lambda: experiments.spread(attend(np.ones((4, 2)), np.ones((4, 2)))), r"\(n_heads, n_q, n_k\), got \(4, 4\)"),
        (
            lambda: experiments.spread(attend(np.ones((1, 4, 2)), np.ones((1, 1, 2)))),
            "without a row of two visible keys",
        ),
    ],
)
def test_what_cannot_be_measured_is_refused(call, words):
    with pytest.raises(ArgumentError, match=words):
        call()
