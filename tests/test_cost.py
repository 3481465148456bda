"""What a layer costs: every count against arrays that count, real matrices, masks and dtypes."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import qkv
from counting import counting, made, multiply_adds, products
from qkv import cost, formula
from qkv.errors import ArgumentError

# ---- the numbers of the lesson -----------------------------------------------------------------------------


@pytest.mark.parametrize("n_heads", [1, 2, 4, 8, 16, 32])
def test_512_channels_take_786_432_and_262_144_parameters_for_any_number_of_heads(n_heads):
    layer = cost.layer(512, n_heads)
    in_heads = sum(layer.weights[name] for name in ("w_q", "w_k", "w_v"))
    assert (in_heads, layer.weights["w_o"], layer.parameters) == (786_432, 262_144, 1_048_576)
    assert layer.parameters == 4 * 512**2


def test_196_tokens_of_768_channels_cost_29_5_million_twice_and_462_million_for_the_projections():
    found = cost.layer(768, 12).cost(196)
    assert [round(each / 1e6, 1) for each in (found.scores, found.average)] == [29.5, 29.5]
    assert round(found.projections / 1e6) == 462
    assert round(found.projections / (found.scores + found.average)) == 8
    assert found.activations.weights / 12 == 38_416
    assert round(found.weights_bytes / 1e6, 1) == 1.8


def test_a_head_over_every_pixel_of_224_by_224_stores_10_gigabytes():
    found = cost.layer(64, 1).cost(224 * 224)
    assert round(found.weights_bytes / 1e9) == 10
    assert found.activations.lse == 50_176


def test_parameters_do_not_grow_with_the_tokens_and_pairs_grow_with_their_square():
    layer = cost.layer(64, 4)
    one, two = layer.cost(100), layer.cost(200)
    assert two.scores == 4 * one.scores and two.activations.weights == 4 * one.activations.weights
    assert two.projections == 2 * one.projections


# ---- a layer against arrays that count ----------------------------------------------------------------------


@pytest.mark.parametrize("n_heads", [1, 2, 6])
@pytest.mark.parametrize(("n_q", "n_k", "d_memory"), [(7, None, 12), (5, 9, 12), (5, 9, 8)])
@pytest.mark.parametrize(("d_k", "d_v"), [(2, 2), (3, 5)])
def test_a_layer_costs_what_the_formula_does(n_heads, n_q, n_k, d_memory, d_k, d_v):
    layer = cost.layer(12, n_heads, d_k=d_k, d_v=d_v, d_memory=d_memory)
    found = layer.cost(n_q, n_k)
    x, memory, w_q, w_k, w_v, w_o = counting(
        (n_q, 12), (n_k or n_q, d_memory),
        (12, n_heads * d_k), (d_memory, n_heads * d_k), (d_memory, n_heads * d_v), (n_heads * d_v, 12),
    )  # fmt: skip
    formula.multi_head(x, w_q, w_k, w_v, w_o, n_heads, None if n_k is None else memory)
    held = found.activations
    names = ("q", "k", "v", "weights", "heads", "out")
    assert [getattr(held, name) for name in names] == [size for _, size in products]
    assert (found.scores, found.average) == tuple(product for product, _ in products[3:5])
    assert found.multiply_adds == multiply_adds()
    assert found.exponentials == made["exp"]
    assert layer.parameters == sum(w.size for w in (w_q, w_k, w_v, w_o))


def test_heads_that_share_keys_save_projections_and_cache_and_no_pairs():
    n, d_model, n_heads, n_kv_heads, d_k = 6, 10, 4, 2, 3
    found = cost.layer(d_model, n_heads, n_kv_heads, d_k=d_k).cost(n)
    x, w_q, w_k, w_v, w_o = counting((n, 10), (10, 12), (10, 6), (10, 6), (12, 10))
    q, k, v = formula.split(x @ w_q, n_heads), formula.split(x @ w_k, n_kv_heads), formula.split(x @ w_v, n_kv_heads)
    repeated = [formula.repeat_heads(each, n_heads) for each in (k, v)]
    formula.merge(formula.attention(q, *repeated)) @ w_o
    assert found.multiply_adds == multiply_adds()
    assert (found.activations.k, found.activations.v, found.kv_cache) == (k.size, v.size, k.size + v.size)
    assert found.scores == cost.layer(d_model, n_heads, d_k=d_k).cost(n).scores


@pytest.mark.parametrize("biases", ["", "q", "qkv", "qkvo", "ov"])
def test_parameters_are_those_of_the_matrices_and_biases_of_a_layer(biases):
    rng = np.random.default_rng(1)
    shapes = {"q": (10, 12), "k": (7, 6), "v": (7, 10), "o": (20, 10)}
    arrays = {f"w_{name}": rng.standard_normal(shape) for name, shape in shapes.items()}
    arrays |= {f"b_{name}": rng.standard_normal(shapes[name][1]) for name in biases}
    real = qkv.MultiHead(**arrays, n_heads=4, n_kv_heads=2)
    layer = cost.layer(10, 4, 2, d_k=real.d_k, d_v=real.d_v, d_memory=7, biases=biases)
    assert layer.parameters == sum(array.size for array in arrays.values())


# ---- who sees whom ------------------------------------------------------------------------------------------

SIDES = st.none() | st.integers(0, 9)


@settings(deadline=None, max_examples=200)
@given(st.integers(1, 9), st.integers(1, 9), st.booleans(), st.none() | st.tuples(SIDES, SIDES))
def test_pairs_are_counted_as_the_map_sees_them(n_q, n_k, causal, window):
    visible = qkv.attend(np.zeros((n_q, 2)), np.zeros((n_k, 2)), causal=causal, window=window).dense() > 0
    assert cost.visible_pairs(n_q, n_k, causal=causal, window=window) == visible.sum()
    found = cost.layer(4, 2).cost(n_q, n_k, causal=causal, window=window)
    assert found.pairs == visible.sum()
    assert found.scores == 4 * visible.sum()
    # Keys between the first and the last that is seen: what a cache that drops the others hands to the call.
    seen = np.flatnonzero(visible.any(axis=0))
    assert found.keys == (seen[-1] - seen[0] + 1 if len(seen) else found.keys)


def test_a_causal_layer_meets_the_pairs_of_a_triangle_at_any_length():
    assert cost.visible_pairs(50_176, 50_176, causal=True) == 50_176 * 50_177 // 2
    assert cost.visible_pairs(50_176, 50_176, causal=True, window=(127, 0)) == 50_176 * 128 - 127 * 128 // 2


def test_a_causal_layer_costs_what_each_query_over_its_own_keys_costs():
    n, d_k = 7, 3
    q, k, v = counting((n, d_k), (n, d_k), (n, d_k))
    for i in range(n):
        formula.attention(q[i : i + 1], k[: i + 1], v[: i + 1])
    found = cost.layer(d_k, 1).cost(n, causal=True)
    assert found.scores + found.average == multiply_adds()
    assert found.exponentials == made["exp"]


# ---- the cache ----------------------------------------------------------------------------------------------


def test_a_step_with_a_cache_projects_one_token_and_meets_all_keys():
    found = cost.layer(12, 3).cost(1, cached=8, causal=True)
    x, w_q, w_k, w_v, w_o, k, v = counting((1, 12), *[(12, 12)] * 4, (3, 8, 4), (3, 8, 4))
    heads = [formula.split(x @ w, 3) for w in (w_q, w_k, w_v)]
    all_k, all_v = np.concatenate([k, heads[1]], axis=-2), np.concatenate([v, heads[2]], axis=-2)
    formula.merge(formula.attention(heads[0], all_k, all_v)) @ w_o
    assert found.multiply_adds == multiply_adds()
    assert found.kv_cache == all_k.size + all_v.size
    assert found.activations.weights == 3 * 9


@pytest.mark.parametrize("window", [None, (2, 0), (0, None)])
@pytest.mark.parametrize("chunks", [[1] * 9, [4, 1, 1, 3], [9]])
def test_steps_of_any_size_cost_together_what_one_pass_costs(chunks, window):
    layer = cost.layer(12, 4, 2)
    starts = itertools.accumulate([0, *chunks[:-1]])
    steps = [layer.cost(n, cached=at, causal=True, window=window) for n, at in zip(chunks, starts, strict=True)]
    whole = layer.cost(9, causal=True, window=window)
    assert sum(step.multiply_adds for step in steps) == whole.multiply_adds
    assert sum(step.exponentials for step in steps) == whole.exponentials
    assert steps[-1].kv_cache == whole.kv_cache


def test_a_cache_is_the_one_that_a_layer_keeps():
    rng = np.random.default_rng(2)
    layer = qkv.MultiHead(rng.normal(size=(8, 8)), rng.normal(size=(8, 4)), rng.normal(size=(8, 4)), np.eye(8), 4, 2)
    cache = qkv.KVCache()
    layer(rng.normal(size=(5, 8)), cache=cache, causal=True)
    k, v = cache.append(np.zeros((2, 0, 2)), np.zeros((2, 0, 2)))
    found = cost.layer(8, 4, 2).cost(5, causal=True, dtype="float64")
    assert found.kv_cache == k.size + v.size
    assert found.kv_cache_bytes == k.nbytes + v.nbytes


def test_a_memory_that_was_projected_before_is_not_projected_again():
    layer = cost.layer(12, 4)
    first, later = layer.cost(3, 10), layer.cost(3, 10, cached=10)
    assert first.projections - later.projections == 10 * (layer.weights["w_k"] + layer.weights["w_v"])
    assert (first.scores, first.kv_cache) == (later.scores, later.kv_cache)


def test_a_batch_costs_a_multiple_and_has_the_same_parameters():
    layer = cost.layer(12, 4)
    one, many = layer.cost(5, causal=True), layer.cost(5, causal=True, batch=7)
    for name in ("projections", "scores", "average", "exponentials", "kv_cache"):
        assert getattr(many, name) == 7 * getattr(one, name)
    assert (many.activations.dense, many.activations.fused) == (7 * one.activations.dense, 7 * one.activations.fused)
    assert (many.pairs, many.keys) == (one.pairs, one.keys)


def test_a_number_has_the_bytes_of_its_dtype():
    kinds = {
        name: np.dtype(getattr(ml_dtypes, {"float8": "float8_e4m3fn"}.get(name, name), name)) for name in cost.DTYPES
    }
    assert {name: kind.itemsize for name, kind in kinds.items()} == cost.DTYPES
    for name in cost.DTYPES:
        found = cost.layer(12, 4).cost(5, dtype=name)
        assert found.weights_bytes == cost.DTYPES[name] * 4 * 5 * 5


def test_fused_attention_stores_one_number_a_row_instead_of_the_weights():
    held = cost.layer(12, 4).cost(5).activations
    assert held.dense - held.fused == held.weights - held.lse == 4 * 5 * 5 - 4 * 5


# ---- what is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cost.layer(768, 7), "d_k must be given, as n_heads = 7 does not divide d_model = 768"),
        (lambda: cost.layer(768, 0), "n_heads must be a whole number of at least 1, got 0"),
        (lambda: cost.layer(768.0, 12), "d_model must be a whole number of at least 1, got 768.0"),
        (lambda: cost.layer(768, 12, 5), "n_kv_heads must divide n_heads, got n_heads = 12 and n_kv_heads = 5"),
        (lambda: cost.layer(768, 12, biases="qx"), "biases must be letters of \"qkvo\".* got 'qx'"),
        (lambda: cost.layer(768, 12, biases="qq"), "biases must be letters of \"qkvo\".* got 'qq'"),
        (lambda: cost.layer(768, 12, biases=True), "biases must be letters"),
        (lambda: cost.layer(8, 2).cost(0), "n_q must be a whole number of at least 1, got 0"),
        (lambda: cost.layer(8, 2).cost(3, cached=-1), "cached must be a whole number of at least 0, got -1"),
        (lambda: cost.layer(8, 2).cost(3, 4, cached=5), "cached must be at most n_k = 4, got 5"),
        (lambda: cost.layer(8, 2, d_memory=6).cost(3), "n_k must be given, as keys come from a memory of width .* = 6"),
        (lambda: cost.layer(8, 2).cost(3, dtype="int4"), "dtype must be one of float64, .* got 'int4'"),
        (lambda: cost.layer(8, 2).cost(3, window=4), r"window must be \(left, right\).* got 4"),
        (lambda: cost.visible_pairs(3, 3, window=(-1, 0)), "left of window must be a whole number of at least 0"),
    ],
)  # fmt: skip
def test_sizes_that_contradict_each_other_are_refused_by_name(make, message):
    with pytest.raises(ArgumentError, match=message):
        make()
