"""The laws of qkv.formula: shapes and dtypes, the softmax, heads, the other scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from qkv import formula

Array = np.ndarray[Any, np.dtype[Any]]
DTYPES = [np.float16, np.float32, np.float64, np.longdouble]

sizes = st.integers(0, 5)
seeds = st.integers(0, 2**32 - 1)


def normal(seed: int, *shape: int, dtype: Any = np.float64) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def qkv(seed: int, n_q: int, n_k: int, d_k: int = 4, d_v: int = 3, *batch: int) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    shapes = ((n_q, d_k), (n_k, d_k), (n_k, d_v))
    q, k, v = (rng.standard_normal((*batch, *shape)) for shape in shapes)
    return q, k, v


# ---- shapes and dtypes -------------------------------------------------------------------------------------


@settings(deadline=None)
@given(n_q=sizes, n_k=sizes, d_k=sizes, d_v=sizes, batch=st.lists(st.integers(0, 3), max_size=3), seed=seeds)
def test_every_size_down_to_zero_gives_the_shape_in_the_docstring(
    n_q: int, n_k: int, d_k: int, d_v: int, batch: list[int], seed: int
) -> None:
    q, k, v = qkv(seed, n_q, n_k, d_k, d_v, *batch)
    score = formula.hide(formula.score(q, k), formula.causal(n_q, n_k))
    weight = formula.weight(score)
    assert score.shape == weight.shape == (*batch, n_q, n_k)
    assert formula.lse(score).shape == formula.entropy(weight).shape == (*batch, n_q)
    assert formula.average(weight, v).shape == formula.attention(q, k, v).shape == (*batch, n_q, d_v)
    assert not np.isnan(formula.attention(q, k, v)).any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_dtype_that_comes_in_goes_out(dtype: Any) -> None:
    q, k, v = (x.astype(dtype) for x in qkv(1, 5, 7, 4, 3, 2))
    visible, sink = formula.causal(5, 7), normal(2, 2, 1, dtype=dtype)
    score = formula.cap(formula.score(q, k, np.float64(0.5)), np.float64(20.0))
    biased = formula.add_bias(score, normal(3, 5, 7, dtype=dtype))
    weight = formula.weight(formula.hide(biased, visible), sink)
    numbers = {"scale": np.float64(0.5), "temperature": np.float64(2.0), "softcap": np.float64(20.0)}
    out = formula.attention(q, k, v, **numbers, bias=score[0], visible=visible, sink=sink)
    square, vector = normal(4, 4, 4, dtype=dtype), normal(5, 4, dtype=dtype)
    others = (
        formula.bilinear_score(q, k, square),
        formula.additive_score(q, k, square, square, vector, vector),
        formula.multi_head(q, square, square, square, square, 2),
        formula.nonlocal_block(normal(6, 2, 3, 4, dtype=dtype), square, square, square),
    )
    stages = (score, biased, weight, formula.lse(score, sink), formula.entropy(weight), out)
    assert {x.dtype for x in (*stages, *others)} == {np.dtype(dtype)}


def test_a_wider_bias_or_sink_does_not_change_the_dtype_of_the_result() -> None:
    q, k, v = (x.astype(np.float16) for x in qkv(1, 5, 7))
    assert formula.attention(q, k, v, bias=np.zeros((5, 7)), sink=np.zeros(5)).dtype == np.float16


def test_integers_become_float64() -> None:
    q = np.array([[1, 0]])
    assert formula.attention(q, np.eye(2, dtype=int), np.eye(2, dtype=int)).dtype == np.float64


def test_long_double_is_more_exact_than_float64_and_float64_than_float32() -> None:
    outs = [formula.attention(*(x.astype(dtype) for x in qkv(7, 40, 60, 16))) for dtype in DTYPES]
    errors = [np.abs(out - outs[-1]).max() for out in outs]
    assert errors[0] < 5e-3
    assert errors[1] < 5e-6
    assert errors[2] < 1e-14
    assert errors == sorted(errors, reverse=True)


# ---- softmax -----------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(seed=seeds, spread=st.sampled_from([0.0, 1.0, 50.0, 1e4]), n_k=st.integers(1, 40))
def test_rows_sum_to_one_and_to_less_with_a_sink(seed: int, spread: float, n_k: int) -> None:
    score = spread * normal(seed, 6, n_k)
    sink = score.max(axis=-1)
    assert formula.weight(score).sum(axis=-1) == pytest.approx(1, rel=1e-13)
    with_sink = formula.weight(score, sink)
    assert (with_sink.sum(axis=-1) <= 0.5 + 1e-13 if n_k == 1 else with_sink.sum(axis=-1) < 1).all()
    # What the sink took is exp(sink − lse), and nothing was lost between the two.
    taken = np.exp(sink - formula.lse(score, sink))
    assert with_sink.sum(axis=-1) + taken == pytest.approx(1, rel=1e-11)


def test_a_sink_is_a_key_whose_value_is_zero() -> None:
    q, k, v = qkv(3, 4, 6)
    sink = normal(4, 4)
    score = np.concatenate([formula.score(q, k), sink[:, None]], axis=-1)
    with_key = formula.blend(score, np.concatenate([v, np.zeros((1, 3))]))
    assert formula.attention(q, k, v, sink=sink) == pytest.approx(with_key, rel=1e-13)
    assert formula.lse(score) == pytest.approx(formula.lse(score[:, :-1], sink), rel=1e-14)


def test_an_empty_row_weighs_nothing_and_has_lse_minus_infinity() -> None:
    score = np.full((2, 3), -np.inf)
    weight = formula.weight(score)
    assert not weight.any()
    assert (formula.lse(score) == -np.inf).all()
    assert not formula.entropy(weight).any()
    assert not formula.average(weight, normal(0, 3, 4)).any()
    # With a sink, lse is the sink's score.
    assert (formula.lse(score, np.array([1.5, -2.0])) == [1.5, -2.0]).all()
    assert not formula.weight(score, np.array([1.5, -2.0])).any()
    assert (formula.lse(score, np.full(2, -np.inf)) == -np.inf).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_scores_of_ten_thousand_are_safe_and_keep_their_digits(dtype: Any) -> None:
    small = np.array([[0.0, 1.0, -2.0]], dtype)
    weight = formula.weight(small)
    huge = np.array([[8192.0, 8200.0, 8184.0]], dtype)  # whole steps of float16 up there
    assert formula.weight(huge) == pytest.approx(formula.weight(huge - huge[0, 0]), rel=0, abs=0)
    assert formula.lse(huge) == pytest.approx(8200, rel=1e-3)
    assert formula.weight(-huge) == pytest.approx(formula.weight(huge[0, 0] - huge), rel=0, abs=0)
    assert weight.sum() == pytest.approx(1, rel=4 * float(np.finfo(dtype).eps))


@settings(deadline=None)
@given(seed=seeds, cut=st.integers(0, 9))
def test_two_halves_of_the_keys_merge_by_lse_into_the_whole(seed: int, cut: int) -> None:
    q, k, v = qkv(seed, 5, 9)
    visible = normal(seed + 1, 5, 9) > 0.5
    score = formula.hide(formula.score(q, k), visible)
    halves = (np.s_[:cut], np.s_[cut:])
    lse = np.stack([formula.lse(score[:, half]) for half in halves], axis=-1)
    out = np.stack([formula.blend(score[:, half], v[half]) for half in halves], axis=-2)
    # Merging is attention over the parts: their lse are the scores, their results the values.
    assert formula.lse(lse) == pytest.approx(formula.lse(score), rel=1e-13)
    merged = formula.average(formula.weight(lse)[:, None, :], out)[:, 0]
    assert merged == pytest.approx(formula.blend(score, v), rel=1e-12, abs=1e-13)


def test_weight_is_exp_of_score_minus_lse_and_entropy_is_the_mean_of_lse_minus_score() -> None:
    score = 3 * normal(5, 6, 8)
    weight, lse = formula.weight(score), formula.lse(score)
    assert weight == pytest.approx(np.exp(score - lse[:, None]), rel=1e-13)
    assert formula.entropy(weight) == pytest.approx((weight * (lse[:, None] - score)).sum(-1), rel=1e-12)


def test_entropy_runs_from_zero_on_one_key_to_log_n_k_on_all_alike() -> None:
    one, alike = formula.entropy(np.eye(8)), formula.entropy(np.full((1, 8), 1 / 8))
    assert not one.any()
    assert not np.signbit(one).any()
    assert alike == pytest.approx(np.log(8), rel=1e-15)


# ---- causal, heads, other scores ---------------------------------------------------------------------------


def test_causal_lets_the_last_query_see_the_last_key_unless_told_otherwise() -> None:
    assert formula.causal(2, 3).astype(int).tolist() == [[1, 1, 0], [1, 1, 1]]
    assert formula.causal(3, 2).astype(int).tolist() == [[0, 0], [1, 0], [1, 1]]
    assert formula.causal(2, 3, offset=0).astype(int).tolist() == [[1, 0, 0], [1, 1, 0]]
    per_sequence = formula.causal(2, 3, offset=np.array([0, 1]))
    assert np.array_equal(per_sequence, [formula.causal(2, 3, offset=0), formula.causal(2, 3)])


def test_merge_undoes_split() -> None:
    x = normal(19, 2, 5, 12)
    heads = formula.split(x, 3)
    assert heads.shape == (2, 3, 5, 4)
    assert np.array_equal(heads[:, 1], x[..., 4:8])
    assert np.array_equal(formula.merge(heads), x)
    assert formula.merge(formula.split(x[:, :0], 3)).shape == (2, 0, 12)


def test_grouped_query_heads_read_the_key_head_of_their_group() -> None:
    k = normal(20, 2, 3, 4, 5)
    repeated = formula.repeat_heads(k, 6)
    assert all(np.array_equal(repeated[:, h], k[:, h // 2]) for h in range(6))


def test_heads_that_do_not_divide_are_refused_with_their_numbers() -> None:
    with pytest.raises(ValueError, match=r"width 10, which n_heads = 4"):
        formula.split(normal(0, 3, 10), 4)
    with pytest.raises(ValueError, match=r"width 10, which n_heads = 0"):
        formula.split(normal(0, 3, 10), 0)
    with pytest.raises(ValueError, match=r"n_heads = 4 .* \(3, 2, 5\)"):
        formula.repeat_heads(normal(0, 3, 2, 5), 4)


def test_multi_head_is_its_heads_one_by_one_summed_through_their_rows_of_w_o() -> None:
    x, memory = normal(21, 5, 8), normal(22, 7, 6)
    w_q, w_k, w_v, w_o = normal(23, 8, 8), normal(24, 6, 8), normal(25, 6, 8), normal(26, 8, 8)
    visible = formula.causal(5, 7)
    parts = [np.s_[:, 4 * h : 4 * h + 4] for h in range(2)]
    heads = [
        formula.attention(x @ w_q[part], memory @ w_k[part], memory @ w_v[part], visible=visible) for part in parts
    ]
    expected = heads[0] @ w_o[:4] + heads[1] @ w_o[4:]
    assert formula.multi_head(x, w_q, w_k, w_v, w_o, 2, memory, visible) == pytest.approx(expected, rel=1e-11)


def test_a_bilinear_score_with_the_identity_is_a_dot_score_and_takes_two_widths() -> None:
    q, k, _ = qkv(27, 3, 5)
    assert np.array_equal(formula.bilinear_score(q, k, np.eye(4)), formula.dot_score(q, k))
    w, k = normal(28, 4, 6), normal(29, 5, 6)
    assert formula.bilinear_score(q, k, w)[1, 2] == pytest.approx(q[1] @ w @ k[2], rel=1e-13)


def test_an_additive_score_is_one_hidden_layer_over_each_pair() -> None:
    q, k, w_q, w_k = normal(30, 2, 3, 4), normal(31, 2, 5, 6), normal(32, 4, 7), normal(33, 6, 7)
    v, b = normal(34, 7), normal(35, 7)
    score = formula.additive_score(q, k, w_q, w_k, v, b)
    assert score.shape == (2, 3, 5)
    assert score[1, 2, 3] == pytest.approx(v @ np.tanh(w_q.T @ q[1, 2] + w_k.T @ k[1, 3] + b), rel=1e-13)
    assert not np.allclose(formula.additive_score(q, k, w_q, w_k, v), score)
