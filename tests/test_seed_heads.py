"""The numbers of the lesson on many tokens and heads, computed: who sees whom, parameters, cost.

Counts come from arrays of the real sizes (zeros take no memory until they are touched).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qkv import formula

Array = np.ndarray[Any, np.dtype[Any]]


def normal(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape)


def multiply_adds(a: Array, b: Array) -> int:
    """Of a @ b: each number of a meets every column of b."""
    assert a.shape[-1] == b.shape[-2]
    return int(a.size * b.shape[-1])


# ---- one formula, three roles ------------------------------------------------------------------------------


def test_one_matrix_for_queries_and_keys_makes_the_scores_symmetric_and_two_do_not() -> None:
    x, w_q, w_k = normal(1, 8, 6), normal(2, 6, 4), normal(3, 6, 4)
    same, different = formula.score(x @ w_q, x @ w_q), formula.score(x @ w_q, x @ w_k)
    assert same == pytest.approx(same.T, rel=1e-12)
    assert not np.allclose(different, different.T)


def test_permuting_the_tokens_permutes_rows_and_columns_and_nothing_knows_the_order() -> None:
    x, w_q, w_k, w_v = normal(4, 8, 6), normal(5, 6, 4), normal(6, 6, 4), normal(7, 6, 3)
    order = np.random.default_rng(8).permutation(8)
    q, k, v = formula.project_qkv(x, w_q, w_k, w_v)
    weight = formula.weight(formula.score(q, k))
    moved_q, moved_k, moved_v = formula.project_qkv(x[order], w_q, w_k, w_v)
    moved = formula.weight(formula.score(moved_q, moved_k))
    assert moved == pytest.approx(weight[order][:, order], rel=1e-12)
    out = formula.attention(q, k, v)
    assert formula.attention(moved_q, moved_k, moved_v) == pytest.approx(out[order], rel=1e-12)
    # Keys alone: the columns follow, the result does not notice.
    assert formula.weight(formula.score(q, moved_k)) == pytest.approx(weight[:, order], rel=1e-12)
    assert formula.attention(q, moved_k, moved_v) == pytest.approx(out, rel=1e-12)


def test_all_queries_at_once_are_each_query_alone() -> None:
    q, k, v = normal(9, 5, 4), normal(10, 7, 4), normal(11, 7, 3)
    out = formula.attention(q, k, v)
    for i in range(5):
        assert formula.attention(q[i : i + 1], k, v)[0] == pytest.approx(out[i], rel=1e-13)


def test_cross_attention_is_the_same_formula_with_memory_from_elsewhere() -> None:
    x, memory = normal(12, 5, 8), normal(13, 9, 8)
    w_q, w_k, w_v, w_o = (normal(seed, 8, 8) for seed in (14, 15, 16, 17))
    cross = formula.multi_head(x, w_q, w_k, w_v, w_o, 2, memory)
    assert cross.shape == (5, 8)
    self_attention = formula.multi_head(x, w_q, w_k, w_v, w_o, 2)
    assert np.array_equal(formula.multi_head(x, w_q, w_k, w_v, w_o, 2, x), self_attention)
    assert not np.allclose(cross, self_attention)


def test_a_decoder_token_is_deaf_to_the_tokens_after_it() -> None:
    x, visible = normal(18, 6, 8), formula.causal(6, 6)
    w_q, w_k, w_v, w_o = (normal(seed, 8, 8) for seed in (19, 20, 21, 22))
    before = formula.multi_head(x, w_q, w_k, w_v, w_o, 4, visible=visible)
    x[4:] = np.nan
    after = formula.multi_head(x, w_q, w_k, w_v, w_o, 4, visible=visible)
    assert np.array_equal(after[:4], before[:4])
    assert np.isnan(after[4:]).all()


def test_the_non_local_block_is_self_attention_of_the_pixels_without_the_root_of_d_k() -> None:
    x, w_theta, w_phi, w_g = normal(23, 2, 3, 4, 6), normal(24, 6, 5), normal(25, 6, 5), normal(26, 6, 2)
    out = formula.nonlocal_block(x, w_theta, w_phi, w_g)
    assert out.shape == (2, 3, 4, 2)
    pixels = x.reshape(2, 12, 6)
    q, k, v = pixels @ w_theta, pixels @ w_phi, pixels @ w_g
    assert out.reshape(2, 12, 2) == pytest.approx(formula.attention(q, k, v, scale=1), rel=1e-13)
    assert not np.allclose(out.reshape(2, 12, 2), formula.attention(q, k, v))


# ---- many heads --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_heads", [1, 2, 4, 8])
def test_the_full_width_dot_product_is_the_sum_of_the_slices(n_heads: int) -> None:
    q, k = normal(27, 8, 16), normal(28, 8, 16)
    slices = formula.dot_score(formula.split(q, n_heads), formula.split(k, n_heads))
    assert slices.shape == (n_heads, 8, 8)
    assert slices.sum(axis=0) == pytest.approx(formula.dot_score(q, k), rel=1e-11)


def test_eight_heads_make_eight_pictures_of_the_sentence_and_eight_results_64_wide() -> None:
    x, (w_q, w_k, w_v) = normal(29, 7, 512), (normal(seed, 512, 512) for seed in (30, 31, 32))
    q, k, v = (formula.split(part, 8) for part in formula.project_qkv(x, w_q, w_k, w_v))
    weight = formula.weight(formula.score(q, k))
    assert weight.shape == (8, 7, 7)
    assert ((weight >= 0) & (weight <= 1)).all()
    assert weight.sum(axis=-1) == pytest.approx(1, rel=1e-13)
    heads = formula.average(weight, v)
    assert heads.shape == (8, 7, 64)
    assert formula.merge(heads).shape == (7, 512)


@pytest.mark.parametrize("n_heads", [1, 2, 4, 8, 16, 32])
def test_512_channels_take_786_432_and_262_144_parameters_whatever_the_number_of_heads(n_heads: int) -> None:
    d_model, d_k = 512, 512 // n_heads
    projections = [[np.zeros((d_model, d_k)) for _ in "qkv"] for _ in range(n_heads)]
    w_o = np.zeros((n_heads * d_k, d_model))
    in_heads = sum(w.size for head in projections for w in head)
    assert in_heads == n_heads * formula.param_count(d_model, d_k, d_k) == 3 * d_model**2 == 786_432
    assert w_o.size == d_model**2 == 262_144
    assert in_heads + w_o.size == 4 * d_model**2 == 1_048_576


def test_heads_of_their_own_and_one_wide_matrix_are_the_same_layer() -> None:
    x, w_q, w_k, w_v = normal(33, 5, 12), normal(34, 12, 12), normal(35, 12, 12), normal(36, 12, 12)
    alone = [
        formula.attention(*formula.project_qkv(x, w_q[:, cut], w_k[:, cut], w_v[:, cut]))
        for cut in (np.s_[0:4], np.s_[4:8], np.s_[8:12])
    ]
    together = formula.multi_head(x, w_q, w_k, w_v, np.eye(12), 3)
    assert together == pytest.approx(np.concatenate(alone, axis=-1), rel=1e-11)


# ---- what it costs -----------------------------------------------------------------------------------------


def test_196_patches_of_768_channels_cost_29_5_million_twice_and_462_million_to_project() -> None:
    n, d_model, n_heads = 14 * 14, 768, 12
    x, w = np.zeros((n, d_model), np.float32), np.zeros((d_model, d_model), np.float32)
    q = k = v = formula.split(x @ w, n_heads)
    weight = formula.weight(formula.score(q, k))
    scores, averages = multiply_adds(q, np.swapaxes(k, -1, -2)), multiply_adds(weight, v)
    merged = formula.merge(formula.average(weight, v))
    projections = 3 * multiply_adds(x, w) + multiply_adds(merged, w)
    assert [round(count / 1e6, 1) for count in (scores, averages)] == [29.5, 29.5]
    assert round(projections / 1e6) == 462
    assert round(projections / (scores + averages)) == 8
    # The same layer with one wide head: neither the pairs nor the projections change.
    assert multiply_adds(x, x.T) == scores


def test_its_weights_are_38_416_numbers_a_head_and_1_8_mb_for_twelve_in_float32() -> None:
    q = k = np.zeros((12, 14 * 14, 64), np.float32)
    weight = formula.weight(formula.score(q, k))
    assert weight[0].size == 38_416
    assert round(weight.nbytes / 1e6, 1) == 1.8


def test_every_pixel_of_224_by_224_takes_ten_gigabytes_a_head() -> None:
    n = 224 * 224
    assert n == 50_176
    q = k = np.zeros((n, 64), np.float32)
    one_row = formula.weight(formula.score(q[:1], k))
    assert round(n * one_row.nbytes / 1e9) == 10


def test_attention_is_cheaper_than_a_recurrence_while_n_is_smaller_than_d_and_dearer_for_every_pixel() -> None:
    def pairs_and_steps(n: int, d: int) -> tuple[int, int]:
        x, recurrent = np.broadcast_to(np.float32(0), (n, d)), np.broadcast_to(np.float32(0), (d, d))
        return multiply_adds(x, x.T), multiply_adds(x, recurrent)

    for n, ratio in ((14 * 14, 0.26), (768, 1.0), (224 * 224, 65.3)):
        pairs, steps = pairs_and_steps(n, 768)
        assert pairs / steps == pytest.approx(ratio, rel=0.02)


def test_parameters_do_not_grow_with_the_tokens_and_the_weights_grow_with_their_square() -> None:
    w_q, w_k, w_v, w_o = (normal(seed, 16, 16) for seed in (37, 38, 39, 40))
    sizes = {}
    for n in (10, 20, 40):
        x = normal(41, n, 16)
        sizes[n] = formula.weight(formula.score(x @ w_q, x @ w_k)).size
        assert formula.multi_head(x, w_q, w_k, w_v, w_o, 4).shape == (n, 16)
    assert sizes == {10: 100, 20: 400, 40: 1600}
