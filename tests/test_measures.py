"""Every measure against its formula on dense float64 weights, over every kind of problem, and the laws between them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import qkv
from cases.definition import as64, assert_close_to_definition, define, normal, qkv_arrays
from dense import IDS, N_K, N_Q, PROBLEMS, dense, placed, problem, visible_of
from qkv import measures

Dense = Callable[[np.ndarray, np.ndarray], np.ndarray]  # weights and scores of the formula -> the measure

LABELS = np.random.default_rng(6).integers(-2, 3, N_K)
KEYS = np.array([0, 1, 1029, 700])


def surprise(w: np.ndarray) -> np.ndarray:
    """−Σ w log w, 0 log 0 = 0."""
    return -(w * np.log(np.where(w > 0, w, 1))).sum(-1)


def pooled(w: np.ndarray, visible: np.ndarray, height: int, width: int, pool: str) -> np.ndarray:
    n_q, n_k = visible.shape
    rows, columns = np.arange(n_q) * height // n_q, np.arange(n_k) * width // n_k
    picture = np.full((*w.shape[:-2], height, width), np.nan, w.dtype)
    for y in range(height):
        for x in range(width):
            cells = w[..., np.ix_(rows == y, columns == x)[0], np.ix_(rows == y, columns == x)[1]]
            sees = visible[np.ix_(rows == y, columns == x)]
            if sees.any():
                picture[..., y, x] = cells[..., sees].mean(-1) if pool == "mean" else cells[..., sees].max(-1)
    return picture


def follows(name: str, w: np.ndarray) -> np.ndarray:
    _, i, j = placed(w, name)
    return (np.roll(IDS, 1)[None, :] == IDS[i]) & (j >= 1) & (j <= i)


MEASURES: dict[str, tuple[measures.Measure, Callable[[np.ndarray, np.ndarray, str], np.ndarray]]] = {
    "entropy": (measures.entropy(), lambda w, s, name: surprise(w)),
    "entropy in bits": (measures.entropy(unit="bits"), lambda w, s, name: surprise(w) / np.log(2)),
    "entropy, normalised": (
        measures.entropy(normalised=True),
        lambda w, s, name: np.where(
            visible_of(w.shape, name).sum(-1) > 1,
            surprise(w) / np.log(np.maximum(visible_of(w.shape, name).sum(-1), 2)),
            0,
        ),
    ),
    "effective_keys": (
        measures.effective_keys(),
        lambda w, s, name: np.where(w.sum(-1) > 0, np.exp(surprise(w)), 0),
    ),
    "effective_keys of order 2": (
        measures.effective_keys(order=2),
        lambda w, s, name: np.where(w.sum(-1) > 0, 1 / np.where(w.sum(-1) > 0, (w**2).sum(-1), 1), 0),
    ),
    "peak": (measures.peak(), lambda w, s, name: w.max(-1)),
    "received": (measures.received(), lambda w, s, name: w.sum(-2)),
    "received per visible query": (
        measures.received(per_visible=True),
        lambda w, s, name: w.sum(-2) / np.maximum(visible_of(w.shape, name).sum(-2), 1),
    ),
    "mass of keys": (measures.mass(KEYS), lambda w, s, name: w[..., KEYS].sum(-1)),
    "mass of a slice": (measures.mass(slice(-300, None)), lambda w, s, name: w[..., -300:].sum(-1)),
    "mass of a bool array": (measures.mass(LABELS == 1), lambda w, s, name: w[..., LABELS == 1].sum(-1)),
    "diagonal": (
        measures.diagonal(-1),
        lambda w, s, name: np.diagonal(w, N_K - N_Q - 1, -2, -1),
    ),
    "local": (
        measures.local(40),
        lambda w, s, name: np.where(np.abs(placed(w, name)[1] - placed(w, name)[2]) <= 40, w, 0).sum(-1),
    ),
    "induction": (measures.induction(IDS), lambda w, s, name: np.where(follows(name, w), w, 0).sum(-1)),
    "image of means": (
        measures.image(16, 40),
        lambda w, s, name: pooled(w, visible_of(w.shape, name), 16, 40, "mean"),
    ),
    "image of maxima": (
        measures.image(7, pool="max"),
        lambda w, s, name: pooled(w, visible_of(w.shape, name), 7, 7, "max"),
    ),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("measure", MEASURES)
def test_a_measure_equals_its_formula_on_dense_float64_weights(measure, name, dtype):
    value, formula = MEASURES[measure]
    q, k, arguments = problem(name, dtype)
    got = qkv.attend(q, k, **arguments).measure(value)[0]
    wide = np.float64 if dtype == np.float32 else np.longdouble
    exact = formula(*dense(q, k, name, arguments, wide), name)
    naive = formula(*dense(q, k, name, arguments, dtype), name)
    assert got.dtype == dtype
    assert_close_to_definition(got, exact, [naive], dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", PROBLEMS)
def test_lse_and_max_logit_equal_their_formulas_on_dense_float64_scores(name, dtype):
    q, k, arguments = problem(name, dtype)
    lse, (value, key) = qkv.attend(q, k, **arguments).measure(measures.lse(), measures.max_logit())
    wide = np.float64 if dtype == np.float32 else np.longdouble
    rest = {key: value for key, value in arguments.items() if key not in ("causal", "window", "mask")}
    visible = visible_of((N_Q, N_K), name)
    exact, naive = (define(q, k, np.ones_like(k), dtype=each, visible=visible, **rest) for each in (wide, dtype))
    assert_close_to_definition(lse, exact.lse, [naive.lse], dtype)
    raw = dense(q, k, name, arguments, wide)[1]
    assert_close_to_definition(value, raw.max(-1), [dense(q, k, name, arguments, dtype)[1].max(-1)], dtype)
    seen = visible.any(-1)
    np.testing.assert_array_equal(key[..., seen], raw.argmax(-1)[..., seen])
    assert (key[..., ~seen] == -1).all() and np.isneginf(value[..., ~seen]).all()


@pytest.mark.parametrize("k_wanted", [1, 8, 1100])
@pytest.mark.parametrize("name", PROBLEMS)
def test_top_equals_a_stable_sort_of_dense_float64_weights(name, k_wanted):
    q, k, arguments = problem(name, np.float64)
    weight, key, rest = qkv.attend(q, k, **arguments).measure(measures.top(k_wanted))[0]
    w, raw = dense(q, k, name, arguments, np.float64)
    order = np.argsort(-np.where(np.isneginf(raw), -1, w), axis=-1, kind="stable")[..., :k_wanted]
    sees = np.take_along_axis(np.broadcast_to(~np.isneginf(raw), w.shape), order, -1)
    wanted = np.where(sees, np.take_along_axis(w, order, -1), 0)
    pad = [(0, 0)] * (w.ndim - 1) + [(0, k_wanted - order.shape[-1])]
    np.testing.assert_allclose(weight, np.pad(wanted, pad), rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(key, np.pad(np.where(sees, order, -1), pad, constant_values=-1))
    np.testing.assert_allclose(rest, w.sum(-1) - wanted.sum(-1), atol=1e-13)


def test_mass_by_label_equals_the_sums_of_dense_float64_weights():
    q, k, arguments = problem("holes", np.float64)
    label, share = qkv.attend(q, k, **arguments).mass(labels=LABELS)
    w, _ = dense(q, k, "holes", arguments, np.float64)
    np.testing.assert_array_equal(label, np.unique(LABELS))
    wanted = np.stack([w[..., each == LABELS].sum(-1) for each in label], axis=-1)
    np.testing.assert_allclose(share, wanted, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(share.sum(-1), w.sum(-1), rtol=1e-12)


def test_equal_weights_come_in_the_order_of_their_keys_across_tiles():
    A = qkv.attend(np.zeros((3, 4), np.float32), np.zeros((2500, 4), np.float32))
    weight, key, rest = A.top(1500)
    np.testing.assert_array_equal(key, np.broadcast_to(np.arange(1500), (3, 1500)))
    assert (weight == np.float32(1 / 2500)).all()
    np.testing.assert_allclose(rest, 0.4, rtol=1e-5)


def test_a_visible_key_without_weight_comes_before_a_hidden_one():
    A = qkv.attend(np.array([[1.0]]), np.array([[0.0], [-1e4], [500.0]]), mask=np.array([True, True, False]))
    weight, key, rest = A.top(3)
    np.testing.assert_array_equal(key, [[0, 1, -1]])
    np.testing.assert_array_equal(weight, [[1, 0, 0]])
    assert rest == 0


@pytest.mark.parametrize("few", [1, 2, 7])
def test_the_first_of_a_longer_top_are_the_shorter_top(few):
    q, k, arguments = problem("causal", np.float32)
    A = qkv.attend(q, k, **arguments)
    short, long = A.top(few), A.top(few + 3)
    np.testing.assert_array_equal(short.key, long.key[..., :few])
    np.testing.assert_array_equal(short.weight, long.weight[..., :few])


def test_many_measures_in_one_walk_are_each_what_it_is_alone():
    q, k, arguments = problem("holes", np.float32)
    A = qkv.attend(q, k, **arguments)
    values = [value for value, _ in MEASURES.values()]
    for value, together in zip(values, A.measure(*values), strict=True):
        np.testing.assert_array_equal(together, A.measure(value)[0])
    assert A.measure() == ()


def test_a_picked_head_measures_what_the_whole_map_does_there():
    q, k, _ = qkv_arrays(3, 70, 90, batch=2, heads=4, kv_heads=2)
    A = qkv.attend(q, k, causal=True)
    for index in [(1,), (0, 3), (slice(None), 2), ([1, 0, 1],), (slice(None), slice(1, 3))]:
        picked = A[index]
        for value in (measures.entropy(), measures.received(), measures.image(9), measures.diagonal()):
            np.testing.assert_array_equal(picked.measure(value)[0], A.measure(value)[0][index])
        np.testing.assert_array_equal(picked.top(2).key, A.top(2).key[index])


@pytest.mark.parametrize("offset", [0, -3, np.array([2, 5])])
def test_the_own_position_of_a_query_is_the_one_that_the_mask_states(offset):
    (q, k, _) = qkv_arrays(3, 6, 9, batch=2)
    A = qkv.attend(q, k, mask=qkv.masks.causal(offset=offset) | qkv.masks.dense(np.ones((6, 9), bool)))
    w = np.asarray(A)
    at = np.arange(6) + np.broadcast_to(offset, (2,))[:, None] + 1
    inside = (at >= 0) & (at < 9)
    wanted = np.where(inside[:, None], np.take_along_axis(w, np.where(inside, at, 0)[:, None, :, None], -1)[..., 0], 0)
    np.testing.assert_array_equal(A.measure(measures.diagonal(1))[0], wanted)
    own = A.measure(measures.diagonal(offset=3), measures.local(0, offset=3))
    np.testing.assert_array_equal(own[0], own[1])
    np.testing.assert_array_equal(own[0], np.diagonal(w, 3, -2, -1))


def test_two_offsets_in_one_mask_are_not_chosen_between():
    A = qkv.attend(np.ones((3, 2)), np.ones((3, 2)), mask=qkv.masks.causal(0) & qkv.masks.window(1, 0, offset=1))
    with pytest.raises(qkv.ArgumentError, match=r"more than one offset.*offset="):
        A.measure(measures.diagonal())
    assert A.measure(measures.diagonal(offset=0))[0].shape == (3,)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_nan_that_a_query_sees_is_in_the_measures_of_that_query_alone(bad):
    q, k = normal(4, (200, 8), (1100, 8))
    clean = qkv.attend(q, k, causal=True)
    q = q.copy()
    q[150] = bad
    k = k.copy()
    A = qkv.attend(q, k, causal=True)
    others = np.arange(200) != 150
    for value in (measures.entropy(), measures.lse(), measures.peak(), measures.mass([0]), measures.local(3)):
        got = A.measure(value)[0]
        assert np.isnan(got[150])
        np.testing.assert_array_equal(got[others], clean.measure(value)[0][others])
    top = A.top(3)
    assert np.isnan(top.weight[150]).all() and (top.key[150] == -1).all() and np.isnan(top.rest[150])
    np.testing.assert_array_equal(top.key[others], clean.top(3).key[others])


def test_a_nan_row_sends_nothing_to_the_keys_that_it_may_not_see():
    q, k = normal(4, (200, 8), (1100, 8))
    q[150] = np.nan
    received = qkv.attend(q, k, causal=True).received()
    last = 150 + 900
    assert np.isnan(received[: last + 1]).all() and np.isfinite(received[last + 1 :]).all()


def test_sixteen_bit_inputs_are_measured_in_float32():
    q, k, _ = qkv_arrays(3, 20, 30, dtype=np.float16)
    got = qkv.attend(q, k).measure(measures.entropy(), measures.received(), measures.lse(), measures.image(4))
    assert {each.dtype for each in got} == {np.dtype(np.float32)}
    wide = qkv.attend(q.astype(np.float32), k.astype(np.float32))
    np.testing.assert_array_equal(got[0], wide.entropy())


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)])
def test_a_map_without_queries_or_keys_has_measures_of_that_size(shape):
    A = qkv.attend(np.ones((2, shape[0], 3)), np.ones((2, shape[1], 3)))
    rows, keys = (2, shape[0]), (2, shape[1])
    assert A.entropy().shape == A.lse().shape == A.measure(measures.local(1))[0].shape == rows
    assert A.received().shape == keys and A.top(2).weight.shape == (*rows, 2)
    assert A.image(4).shape == (2, min(4, shape[0]), min(4, shape[1]))
    assert np.isneginf(A.lse()).all() and (A.entropy() == 0).all()


REFUSED: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "unit": (lambda A: A.entropy(unit="nat"), qkv.ArgumentError, '"nats" or "bits"'),
    "order": (lambda A: A.measure(measures.effective_keys(3)), qkv.ArgumentError, "expected 1 or 2"),
    "k": (lambda A: A.top(0), qkv.ArgumentError, "k of top is 0; expected an integer >= 1"),
    "k of another type": (lambda A: A.top(2.5), qkv.DTypeError, "integer"),
    "pool": (lambda A: A.image(3, pool="median"), qkv.ArgumentError, '"mean" or "max"'),
    "height": (lambda A: A.image(0), qkv.ArgumentError, "height of image is 0; expected an integer >= 1"),
    "width": (lambda A: A.image(3, 0), qkv.ArgumentError, "width of image"),
    "both": (lambda A: A.mass([0], labels=[0] * 5), qkv.ArgumentError, "one of them"),
    "neither": (lambda A: A.mass(), qkv.ArgumentError, "keys= or labels="),
    "keys": (lambda A: A.mass([5]), qkv.ArgumentError, "5"),
    "float keys": (lambda A: A.mass([0.5]), qkv.DTypeError, "indices"),
    "labels": (lambda A: A.mass(labels=[1, 2]), qkv.ShapeError, r"\(5,\)"),
    "ids": (lambda A: A.measure(measures.induction([1, 2])), qkv.ShapeError, "n_k = 5"),
    "offset": (lambda A: A.measure(measures.diagonal(offset=[1, 2])), qkv.ShapeError, "offset of diagonal"),
    "no measure": (lambda A: A.measure("entropy"), qkv.DTypeError, "measures.entropy"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_wrong_argument_of_a_measure_is_named(what):
    call, kind, message = REFUSED[what]
    with pytest.raises(kind, match=message):
        call(qkv.attend(np.ones((4, 3)), np.ones((5, 3))))


def test_measures_are_values():
    assert measures.entropy() == measures.entropy("nats") != measures.entropy("bits")
    assert len({measures.top(3), measures.top(3), measures.image(4)}) == 2
    assert repr(measures.top(8)) == "top(k=8)"


def test_rows_of_a_map_with_a_sink_are_not_renormalised():
    q, k, arguments = problem("sinks", np.float64)
    A = qkv.attend(q, k, **arguments)
    w = as64(A)
    assert (w.sum(-1) < 1).all()
    np.testing.assert_allclose(A.top(1).rest + A.measure(measures.peak())[0], w.sum(-1))


N = 20_000
LONG = qkv.attend(np.zeros((N, 1), np.float32), np.zeros((N, 1), np.float32), window=(5, 0))


@pytest.mark.parametrize(
    "measure", [measures.image(N), measures.top(N), measures.mass(labels=np.arange(N))], ids=["image", "top", "mass"]
)
def test_a_result_of_more_than_a_gibibyte_is_refused_before_the_walk(measure):
    with pytest.raises(qkv.DenseError, match=r"GiB\); (ask|give)"):
        LONG.measure(measure)


def test_many_labels_are_added_up_tile_by_tile():
    q, k, arguments = problem("causal", np.float64)
    labels = np.random.default_rng(0).permutation(N_K)
    label, share = qkv.attend(q, k, **arguments).mass(labels=labels)
    np.testing.assert_allclose(share[..., labels], qkv.attend(q, k, **arguments).dense(), rtol=1e-12)
    np.testing.assert_array_equal(label, np.arange(N_K))


def test_no_measure_is_no_walk():
    class Never(qkv.scores.Dot):
        def of(self, q, k, factor):
            raise AssertionError("nothing was asked for")

    assert qkv.attend(np.ones((3, 2)), np.ones((3, 2)), score=Never()).measure() == ()


def test_the_default_alignment_counts_among_those_a_mask_uses():
    A = qkv.attend(np.ones((3, 2)), np.ones((5, 2)), mask=qkv.masks.causal() & qkv.masks.window(0, None, offset=0))
    with pytest.raises(qkv.ArgumentError, match="more than one offset"):
        A.measure(measures.diagonal())
    same = qkv.attend(np.ones((3, 2)), np.ones((5, 2)), mask=qkv.masks.causal() & qkv.masks.window(9, None, offset=2))
    assert same.measure(measures.diagonal())[0].shape == (3,)
