"""The numbers of the lesson on one head, computed: projections, a worked example, softmax, why √d_k."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from qkv import formula

Array = np.ndarray[Any, np.dtype[Any]]


def normal(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape)


# ---- one token, three views --------------------------------------------------------------------------------

WQ, WK, WV = [[1, 0], [1, 1]], [[0, 1], [1, 0]], [[2, 0], [0, 2]]


def test_the_token_1_2_projects_to_query_3_2_key_2_1_and_value_2_4() -> None:
    q, k, v = formula.project_qkv([[1, 2]], WQ, WK, WV)
    assert (q.tolist(), k.tolist(), v.tolist()) == ([[3, 2]], [[2, 1]], [[2, 4]])
    q, k, v = formula.project_qkv([1, 2], WQ, WK, WV)
    assert (q.tolist(), k.tolist(), v.tolist()) == ([3, 2], [2, 1], [2, 4])


@pytest.mark.parametrize(
    ("matrices", "message"),
    [
        (
            (normal(0, 3, 4), normal(0, 2, 4), normal(0, 2, 5)),
            r"Wq has shape \(3, 4\) .*d_model = 2.* 2 rows",
        ),
        ((normal(0, 2, 4), normal(0, 4, 2), normal(0, 2, 5)), r"Wk has shape \(4, 2\) .*transposed\?"),
        ((normal(0, 2, 4), normal(0, 2, 4), normal(0, 5, 5)), r"Wv has shape \(5, 5\) "),
        ((normal(0, 2, 4), normal(0, 2), normal(0, 2, 5)), r"Wk has shape \(2,\) "),
        ((normal(0, 2, 4), normal(0, 2, 3), normal(0, 2, 5)), r"Wk has 3 columns but Wq has 4 .*same d_k"),
    ],
)
def test_a_projection_that_does_not_fit_says_which_and_what_to_do(
    matrices: tuple[Array, Array, Array], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        formula.project_qkv(normal(0, 6, 2), *matrices)


def test_the_shapes_and_the_count_of_weights_are_those_of_the_arrays() -> None:
    n, d_model, d_k, d_v, n_k = 6, 8, 3, 5, 9
    x, memory = normal(1, n, d_model), normal(2, n_k, d_model)
    w_q, w_k, w_v = normal(3, d_model, d_k), normal(4, d_model, d_k), normal(5, d_model, d_v)
    q, k, v = formula.project_qkv(x, w_q, w_k, w_v)
    assert formula.qkv_shapes(n, d_model, d_k, d_v) == {"Q": q.shape, "K": k.shape, "V": v.shape}
    assert formula.param_count(d_model, d_k, d_v) == w_q.size + w_k.size + w_v.size
    # Self- and cross-attention: a row for each query, d_v wide, whatever the number of keys.
    _, k_memory, v_memory = formula.project_qkv(memory, w_q, w_k, w_v)
    assert formula.attention(q, k, v).shape == formula.output_shape(n, n, d_v) == (n, d_v)
    assert formula.attention(q, k_memory, v_memory).shape == formula.output_shape(n, n_k, d_v) == (n, d_v)


# ---- the worked example ------------------------------------------------------------------------------------

Q, K, V = np.array([[1.0, 0.0]]), np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[2.0, 0.0], [0.0, 2.0]])


def test_the_query_1_0_weighs_two_keys_0_669762_and_0_330238() -> None:
    score = formula.score(Q, K)
    assert score == pytest.approx(np.array([[1 / np.sqrt(2), 0]]), rel=1e-15)
    weight = formula.weight(score)
    assert weight.round(6).tolist() == [[0.669762, 0.330238]]
    assert weight[0, 0] == pytest.approx(0.6697615493266569, rel=1e-15)
    out = formula.attention(Q, K, V)
    assert out.round(6).tolist() == [[1.339523, 0.660477]]
    assert out[0] == pytest.approx(np.array([1.3395230986533138, 0.6604769013466862]), rel=4e-16)


def test_under_a_causal_mask_the_first_query_gets_the_first_value_2_0() -> None:
    out = formula.attention(Q, K, V, visible=formula.causal(1, 2, offset=0))
    assert out.tolist() == [[2, 0]]


def test_the_additive_score_changes_line_one_only_lines_two_and_three_are_identical() -> None:
    q, k, v = normal(6, 3, 4), normal(7, 5, 4), normal(8, 5, 2)
    visible = formula.causal(3, 5)
    additive = formula.additive_score(q, k, normal(9, 4, 6), normal(10, 4, 6), normal(11, 6))
    bilinear = formula.bilinear_score(q, k, normal(12, 4, 4))
    for score in (formula.score(q, k), formula.dot_score(q, k), bilinear, additive):
        by_hand = np.exp(score) * visible @ v / (np.exp(score) * visible).sum(axis=-1, keepdims=True)
        assert formula.blend(score, v, visible) == pytest.approx(by_hand, rel=1e-11)
    assert np.array_equal(formula.blend(formula.score(q, k), v, visible), formula.attention(q, k, v, visible=visible))


def test_temperature_goes_from_the_loudest_key_to_an_eighth_for_each_of_eight() -> None:
    q, k = normal(13, 8, 4), normal(14, 8, 4)
    loudest = formula.score(q, k).argmax(axis=-1)
    cold = formula.weight(formula.biased_score(q, k, temperature=1e-4))
    hot = formula.weight(formula.biased_score(q, k, temperature=1e6))
    assert cold == pytest.approx(np.eye(8)[loudest], abs=1e-9)
    assert hot == pytest.approx(1 / 8, rel=1e-5)


# ---- softmax and its slope ---------------------------------------------------------------------------------


def softmax(*score: float | np.longdouble) -> Array:
    row: Array = formula.weight(np.array([score]))[0]
    return row


def test_two_keys_eight_apart_are_0_9997_to_0_0003_and_scaled_by_eight_0_731_to_0_269() -> None:
    assert softmax(8.0, 0.0).round(4).tolist() == [0.9997, 0.0003]
    assert softmax(8.0 / 8, 0.0).round(3).tolist() == [0.731, 0.269]


def test_one_of_four_keys_at_16_takes_0_9999997_and_scaled_to_two_0_711() -> None:
    raw, scaled = softmax(16.0, 0.0, 0.0, 0.0), softmax(16.0 / 8, 0.0, 0.0, 0.0)
    assert raw[0].round(7) == 0.9999997
    assert [f"{w:.0e}" for w in raw[1:]] == ["1e-07"] * 3
    assert scaled.round(3).tolist() == [0.711, 0.096, 0.096, 0.096]


def test_the_slope_at_the_top_is_0_0003_raw_and_0_197_scaled_almost_600_times_as_much() -> None:
    def slope(top: float) -> float:
        step = np.longdouble(1e-6)
        up, down = (softmax(np.longdouble(top) + s, np.longdouble(0))[0] for s in (step, -step))
        return float((up - down) / (2 * step))

    def factor(top: float) -> float:
        p = softmax(top, 0.0)[0]
        return float(p * (1 - p))

    # p(1 − p) is indeed the derivative of a weight with respect to its own score.
    assert factor(8.0) == pytest.approx(slope(8.0), rel=1e-6)
    assert factor(1.0) == pytest.approx(slope(1.0), rel=1e-6)
    assert round(factor(8.0), 4) == 0.0003
    assert round(factor(1.0), 3) == 0.197
    assert 580 < factor(1.0) / factor(8.0) < 600


# ---- why √d_k ----------------------------------------------------------------------------------------------


def sample(d_k: int, rows: int, scale: float | None) -> tuple[Array, Array, Array]:
    """Scores, largest weight and entropy of one query over ten keys, all standard normal, `rows` times."""
    rng = np.random.default_rng([d_k, rows])
    parts = []
    for _ in range(rows // 1000):
        q = rng.standard_normal((1000, 1, d_k), dtype=np.float32)
        k = rng.standard_normal((1000, 10, d_k), dtype=np.float32)
        parts.append(formula.score(q, k, scale)[:, 0])
    score = np.concatenate(parts)
    weight = formula.weight(score)
    return score, weight.max(axis=-1), formula.entropy(weight)


def is_about(printed: float, draws: Array) -> bool:
    """Half a unit of the second digit, and three standard errors, which must be the smaller part."""
    error = float(draws.std() / np.sqrt(draws.size))
    assert 3 * error < 0.005
    return abs(float(draws.mean()) - printed) <= 0.005 + 3 * error


@pytest.mark.parametrize(("d_k", "rows", "printed"), [(4, 20_000, 0.49), (64, 20_000, 0.86), (1024, 6000, 0.97)])
def test_unscaled_the_mean_largest_of_ten_weights_climbs(d_k: int, rows: int, printed: float) -> None:
    _, largest, _ = sample(d_k, rows, scale=1.0)
    assert is_about(printed, largest)


@pytest.mark.parametrize(("d_k", "rows", "nats"), [(64, 40_000, 1.9250), (256, 16_000, 1.9240), (1024, 16_000, 1.9235)])
def test_scaled_it_is_0_32_and_the_entropy_1_93_nats_at_every_width_from_64(d_k: int, rows: int, nats: float) -> None:
    _, largest, entropy = sample(d_k, rows, scale=None)
    assert is_about(0.32, largest)
    # By 2 million draws (standard error 0.00015) it is `nats`: 1.93 is right at d_k = 64, beyond it is 1.92.
    assert is_about(1.93, entropy)
    assert entropy.mean() == pytest.approx(nats, abs=3 * entropy.std() / np.sqrt(rows))


def test_unscaled_the_entropy_collapses_with_the_width() -> None:
    entropies = [float(sample(d_k, 2000, scale=1.0)[2].mean()) for d_k in (4, 16, 64, 256, 1024)]
    ratios = [b / a for a, b in itertools.pairwise(entropies)]
    assert max(ratios) < 0.6  # each step of four takes away at least two fifths
    assert entropies[-1] < 0.1


@pytest.mark.parametrize("d_k", [4, 16, 64, 256])
def test_the_spread_of_a_raw_score_is_the_root_of_d_k_and_scaled_one(d_k: int) -> None:
    raw, scaled = sample(d_k, 10_000, scale=1.0)[0], sample(d_k, 10_000, scale=None)[0]
    assert raw.mean() == pytest.approx(0, abs=0.03 * np.sqrt(d_k))
    assert raw.std() == pytest.approx(np.sqrt(d_k), rel=0.02)  # 8 at 64
    assert scaled.std() == pytest.approx(1, rel=0.02)
