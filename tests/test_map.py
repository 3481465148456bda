"""The map as an object: what it multiplies, says and refuses."""

import copy
import math
import pickle
import tracemalloc
from typing import Any

import numpy as np
import pytest

import qkv
import running
from cases.definition import as64, assert_close_to_definition, exact_and_naive, normal, qkv_arrays
from qkv import masks, measures

pytestmark = pytest.mark.usefixtures("every_kernel")


def whole(a: qkv.AttentionMap) -> np.ndarray:
    return as64(a)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_a_map_times_values_is_the_dense_matrix_times_values(dtype, kv_heads):
    q, k, v = qkv_arrays(1, 131, 1030, batch=2, heads=4, kv_heads=kv_heads, d_v=5, dtype=dtype)
    A = qkv.attend(q, k, causal=True)
    for values in (v, np.repeat(v, 4 // kv_heads, axis=-3)):
        exact, naive = exact_and_naive(q, k, np.repeat(v, 4 // kv_heads, axis=-3), visible=whole(A) > 0)
        assert_close_to_definition(A @ values, exact.out, naive.out, dtype)
    column = v[0, 0, :, 0]
    np.testing.assert_allclose(A @ column, whole(A) @ column, rtol=1e-5, atol=1e-6)
    assert (A @ column).shape == (2, 4, 131)


@pytest.mark.parametrize("kv_heads", [1, 4])
def test_the_transposed_map_sends_queries_back_to_keys_and_never_folds_a_group(kv_heads):
    q, k, _ = qkv_arrays(2, 131, 1030, batch=2, heads=4, kv_heads=kv_heads)
    (x,) = normal(3, (2, 4, 131, 3))
    A = qkv.attend(q, k, causal=True)
    wanted = whole(A).swapaxes(-1, -2) @ x.astype(np.float64)
    assert (A.T @ x).shape == (2, 4, 1030, 3) and (A.T @ x).dtype == np.float32
    np.testing.assert_allclose(A.T @ x, wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(x.swapaxes(-1, -2) @ A, wanted.swapaxes(-1, -2), rtol=1e-5, atol=1e-5)
    ones = np.ones(131, np.float32)
    np.testing.assert_allclose(A.T @ ones, A.received(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(ones @ A, A.received(), rtol=1e-5, atol=1e-6)
    assert A.T.shape == (2, 4, 1030, 131) and A.T.T is A and A.T.ndim == 4 and A.T.dtype == np.float32


def test_a_picked_map_takes_values_for_its_own_axes():
    q, k, v = qkv_arrays(4, 20, 30, batch=2, heads=4, kv_heads=2)
    A = qkv.attend(q, k)
    full, wide = A @ v, np.repeat(v, 2, axis=1)
    np.testing.assert_array_equal(A[1] @ v[1], full[1])
    np.testing.assert_array_equal(A[1, 3] @ wide[1, 3], full[1, 3])
    np.testing.assert_array_equal(A[:, 2] @ wide[:, 2], full[:, 2])
    np.testing.assert_array_equal(A[:, [3, 0]] @ wide[:, [3, 0]], full[:, [3, 0]])
    np.testing.assert_array_equal(A[0, 1:3].T @ full[0, 1:3], (A.T @ full)[0, 1:3])


def test_values_for_a_group_are_not_guessed_when_only_some_heads_were_picked():
    q, k, v = qkv_arrays(4, 20, 30, heads=8, kv_heads=2)
    with pytest.raises(qkv.ShapeError, match="leading axes"):
        qkv.attend(q, k)[:, :4] @ v  # heads 0 … 3 all read key head 0; two value heads would be read as 0 0 1 1


@pytest.mark.parametrize("stage", ["raw", "capped", "biased"])
def test_the_scores_of_each_stage_are_those_of_the_formula(stage):
    q, k, _ = qkv_arrays(5, 9, 12, dtype=np.float64)
    bias = normal(6, (9, 12), dtype=np.float64)[0]
    A = qkv.attend(q, k, scale=0.7, temperature=2.0, softcap=1.5, bias=bias, causal=True)
    raw = 0.35 * (q @ k.swapaxes(-1, -2))
    capped = 1.5 * np.tanh(raw / 1.5)
    seen = np.tril(np.ones((9, 12), bool), 3)
    wanted = {"raw": raw, "capped": capped, "biased": np.where(seen, capped + bias, -np.inf)}[stage]
    np.testing.assert_allclose(A.scores(stage).dense(), wanted, rtol=1e-13, atol=1e-14)
    assert repr(A.scores(stage)) == f"Scores(stage='{stage}', shape=(1, 2, 9, 12), float64)"
    with pytest.raises(qkv.ArgumentError, match='"raw", "capped" or "biased"'):
        A.scores("weights")


def test_weights_are_the_exponential_of_score_less_lse():
    q, k, _ = qkv_arrays(5, 131, 1030, dtype=np.float64)
    A = qkv.attend(q, k, softcap=3.0, window=(300, 0), sinks=[0.3, 1.0])
    np.testing.assert_allclose(np.exp(A.scores("biased").dense() - A.lse()[..., None]), A.dense(), rtol=1e-12)


def test_one_cell_taken_apart_is_the_way_of_the_formula():
    q, k, _ = qkv_arrays(7, 131, 1030, dtype=np.float64)
    bias = np.linspace(-1, 1, 1030)[None]
    A = qkv.attend(q, k, scale=0.5, temperature=2.0, softcap=4.0, bias=bias, causal=True)
    cell = A.explain(0, 1, 130, 700)
    dot = float(q[0, 1, 130] @ k[0, 1, 700])
    assert cell.dot == pytest.approx(dot) and cell.raw == pytest.approx(dot * 0.25)
    assert cell.capped == pytest.approx(4 * math.tanh(dot / 16)) and cell.bias == bias[0, 700]
    assert cell.biased == pytest.approx(cell.capped + cell.bias) and cell.visible
    assert cell.lse == pytest.approx(A.lse()[0, 1, 130]) and cell.weight == A[0, 1, 130, 700]
    assert cell.weight == pytest.approx(math.exp(cell.biased - cell.lse))
    assert A[0, 1].explain(130, 700) == cell == A.explain(-1, -1, -1, 700)
    hidden = A.explain(0, 0, 0, 1029)
    assert not hidden.visible and hidden.weight == 0 and hidden.biased == -math.inf
    assert "hidden" in str(hidden) and "weight" in str(cell) and str(cell).startswith("query 130, key 700")


@pytest.mark.parametrize("index", [(0,), (0, 0), (0, 0, 131, 0), (0, 0, 0, 1.5), (0, 0, 0, -1031)])
def test_a_cell_that_is_not_there_cannot_be_explained(index):
    q, k, _ = qkv_arrays(7, 131, 1030)
    with pytest.raises(qkv.ArgumentError, match=r"explain"):
        qkv.attend(q, k).explain(*index)


class _Counted(qkv.scores.Dot):
    """The dot product, counting the tiles that it is asked for."""

    tiles = 0

    def of(self, q: Any, k: Any, factor: float) -> Any:
        type(self).tiles += 1
        return super().of(q, k, factor)


@pytest.mark.parametrize(
    "arguments",
    [
        {"causal": True},
        {"window": (10, 10)},
        {"lengths": 1000},
        {"mask": masks.segments(np.arange(4096) // 1000)},
        {"mask": np.arange(4096)[None] < 5},
        {"bias": np.where(np.arange(4096)[None] < 5, 0.0, -np.inf)},
        {"mask": ~masks.window(None, None)},
    ],
    ids=str,
)
def test_a_tile_that_nobody_may_see_is_never_computed(arguments):
    q = np.zeros((4096, 4), np.float32)
    A = qkv.attend(q, q, score=_Counted(), **arguments)
    _Counted.tiles = 0
    A @ q
    plan = A.plan()
    assert _Counted.tiles == plan.tiles
    sees = np.asarray(qkv.attend(np.zeros((4096, 1), np.float32), np.zeros((4096, 1), np.float32), **arguments)) > 0
    wanted = sum(sees[i : i + 128, j : j + 1024].any() for i in range(0, 4096, 128) for j in range(0, 4096, 1024))
    assert plan.tiles == wanted and plan.skipped == 128 - wanted
    assert "skipped" in str(plan) and plan.path == "tile walk" and plan.tile == (128, 1024)


@pytest.mark.parametrize(
    ("shape", "together"), [((64, 64), 32), ((1, 100), 1310), ((128, 1024), 1), ((500, 500), 2), ((500, 3000), 1)]
)
def test_small_maps_are_computed_many_at_once_and_large_ones_one_by_one(shape, together):
    q, k = np.zeros((2000, shape[0], 1), np.float32), np.zeros((2000, shape[1], 1), np.float32)
    first = next(qkv.attend(q, k)._problem.heads(np.arange(2000)))[1]
    assert len(first) == together


def test_a_repr_computes_nothing_and_says_shape_dtype_mask_and_dense_size():
    n = 1_000_000
    q = np.broadcast_to(np.float32(0), (12, n, 64))
    A = qkv.attend(q, q, causal=True, window=(128, None), score=_Counted())
    _Counted.tiles = 0
    text = repr(A)
    assert _Counted.tiles == 0
    for part in ("(12, 1000000, 1000000)", "float32", "causal() & window(128, None)", "43.7 TiB", "tile walk"):
        assert part in text
    assert "Transposed(" in repr(A.T)
    assert "alibi()" in repr(qkv.attend(q, q, bias=qkv.biases.alibi()))


def test_a_map_holds_references_so_changing_q_changes_the_map():
    q, k = normal(8, (4, 3), (5, 3))
    A = qkv.attend(q, k)
    before = A[0]
    q[0] += 1
    assert not np.array_equal(A[0], before)
    np.testing.assert_array_equal(A[0], qkv.attend(q, k)[0])


def test_attention_is_attend_times_values():
    q, k, v = qkv_arrays(9, 5, 6)
    np.testing.assert_array_equal(qkv.attention(q, k, v, causal=True), qkv.attend(q, k, causal=True) @ v)


def test_numpy_functions_see_an_array():
    A = qkv.attend(*normal(8, (4, 3), (5, 3)))
    w = A.dense()
    np.testing.assert_array_equal(np.asarray(A), w)
    assert np.asarray(A, dtype=np.float64).dtype == np.float64 and np.asarray(A).dtype == np.float32
    np.testing.assert_array_equal(np.stack([A, A]), np.stack([w, w]))
    assert A.size == 20 and A.dtype == np.float32
    with pytest.raises(ValueError, match="copy can't be avoided"):
        np.array(A, copy=False)


@pytest.mark.parametrize("parts", [2, 3, 7])
@pytest.mark.parametrize("sinks", [None, [0.5, -0.5]])
def test_merging_parts_of_the_keys_gives_the_whole(parts, sinks):
    q, k, v = qkv_arrays(10, 9, 40)
    whole_map = qkv.attend(q, k, sinks=sinks)
    pieces = []
    for at, (key, value) in enumerate(zip(np.array_split(k, parts, -2), np.array_split(v, parts, -2), strict=True)):
        A = qkv.attend(q, key, sinks=sinks if at == 0 else None)
        pieces.append((A @ value, A.lse()))
    nothing = qkv.attend(q, k[..., :0, :])
    pieces.insert(1, (np.full_like(pieces[0][0], np.nan), nothing.lse()))  # an empty part, its out never written
    out, lse = qkv.merge(pieces)
    assert out.dtype == np.float32
    np.testing.assert_allclose(out, whole_map @ v, rtol=2e-6, atol=2e-7)
    np.testing.assert_allclose(lse, whole_map.lse(), rtol=2e-6)


def test_merging_nothing_but_empty_parts_is_empty():
    out, lse = qkv.merge([(np.full((3, 2), np.nan), np.full(3, -np.inf))] * 2)
    assert (out == 0).all() and np.isneginf(lse).all()


def test_parts_that_do_not_fit_are_not_merged():
    with pytest.raises(qkv.ArgumentError, match="no parts"):
        qkv.merge([])
    with pytest.raises(qkv.ShapeError, match=r"\(3, 2\).*\(4,\)"):
        qkv.merge([(np.ones((3, 2)), np.ones(4))])


@pytest.mark.parametrize("operand", ["v", "x"])
@pytest.mark.parametrize(
    ("shape", "dtype", "kind", "message"),
    [
        ((1, 2, 7, 4), np.float32, qkv.ShapeError, "n_{} = "),
        ((3, 2, 6, 4), np.float32, qkv.ShapeError, "leading axes"),
        ((1, 3, 6, 4), np.float32, qkv.ShapeError, "leading axes"),
        ((2, 6, 4), np.float32, qkv.ShapeError, "{} has shape"),
        ((6, 4), np.float32, qkv.ShapeError, "{} has shape"),
        ((1, 2, 6, 4), np.float64, qkv.DTypeError, "float32 and float64"),
        ((1, 2, 6, 4), np.complex64, qkv.DTypeError, "complex64"),
    ],
    ids=str,
)
def test_a_factor_that_does_not_fit_is_named(operand, shape, dtype, kind, message):
    q, k, _ = qkv_arrays(9, 6, 6)
    A = qkv.attend(q, k)
    left, name = (A, "k") if operand == "v" else (A.T, "q")
    with pytest.raises(kind, match=message.format(name if "n_" in message else operand)):
        left @ np.ones(shape, dtype)


def test_a_long_map_is_measured_in_the_memory_of_its_results():
    n = 20_000
    q, k = normal(12, (n, 16), (n, 16))
    A = qkv.attend(q, k, window=(500, 0))
    tracemalloc.start()
    A.measure(measures.entropy(), measures.received(), measures.image(256), measures.top(4))
    A @ q
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6 < n * n * 4 / 30


@pytest.mark.parametrize("sizes", [(0, 5), (5, 0), (0, 0)])
@pytest.mark.parametrize("lead", [(), (0,), (2,), (0, 2), (2, 3)])
@pytest.mark.parametrize("d", [0, 3])
def test_any_size_may_be_zero(lead, sizes, d):
    n_q, n_k = sizes
    A = qkv.attend(np.ones((*lead, n_q, d)), np.ones((*lead, n_k, d)), causal=True)
    assert A.shape == (*lead, n_q, n_k) == A.dense().shape == np.asarray(A.scores()).shape
    out = A @ np.ones((*lead, n_k, 2))
    assert out.shape == (*lead, n_q, 2) and (out == 0).all()
    assert (A.T @ np.ones((*lead, n_q, 2))).shape == (*lead, n_k, 2)
    assert np.isneginf(A.lse()).all() and A.plan().tiles == 0


def test_a_score_of_no_channels_gives_every_key_the_same_weight():
    assert (qkv.attend(np.ones((3, 0)), np.ones((4, 0))).dense() == 0.25).all()


def test_broadcast_batch_axes_are_shared_without_a_copy():
    q, k, v = qkv_arrays(13, 5, 6, batch=3)
    one = qkv.attend(q, k[:1]) @ v[:1]
    np.testing.assert_array_equal(one, qkv.attend(q, np.repeat(k[:1], 3, 0)) @ np.repeat(v[:1], 3, 0))


@pytest.mark.parametrize(("dtype", "large"), [(np.float32, 3e38), (np.float64, 1.7e308), (np.float16, 6e4)])
@pytest.mark.parametrize("n_k", [4, 1500])
def test_an_average_of_the_largest_numbers_does_not_overflow(dtype, large, n_k):
    q, k = np.zeros((2, 3), dtype), np.zeros((n_k, 3), dtype)
    v = np.full((n_k, 2), large, dtype)
    v[:, 1] = 1
    out = qkv.attention(q, k, v)
    np.testing.assert_allclose(out[:, 0], large, rtol=2e-3 if dtype == np.float16 else 1e-6)
    np.testing.assert_allclose(out[:, 1], 1, rtol=1e-6)
    v[0, 0] = np.inf
    assert np.isinf(qkv.attention(q, k, v)[:, 0]).all()


class _Asked(qkv.biases.alibi):
    """ALiBi, counting the tiles that it is asked for."""

    tiles = 0

    def of(self, tile):
        type(self).tiles += 1
        return super().of(tile)


def test_a_bias_is_not_asked_for_where_nobody_may_see():
    q = np.zeros((4096, 4), np.float32)
    A = qkv.attend(q, q, window=(10, 10), bias=_Asked())
    _Asked.tiles = 0
    with running.kernel("walk"):
        A.lse()
    asked = _Asked.tiles
    assert asked == A.plan().tiles < 50


@pytest.mark.parametrize("how", [copy.deepcopy, lambda a: pickle.loads(pickle.dumps(a))])  # noqa: S301 (our own)
def test_a_map_can_be_copied_and_pickled(how):
    q, k, v = qkv_arrays(3, 20, 30)
    A = qkv.attend(q, k, causal=True, window=(5, None), bias=qkv.biases.alibi())
    np.testing.assert_array_equal(how(A) @ v, A @ v)
    np.testing.assert_array_equal(how(A[0, 1]).dense(), A[0, 1].dense())


def test_taking_a_cell_apart_warns_of_nothing():
    cell = qkv.attend(np.array([[np.inf, 0.0]]), np.array([[0.0, 1.0]])).explain(0, 0)
    assert np.isnan(cell.dot) and np.isnan(cell.weight)
    large = np.full((1, 2), 1e38, np.float32)
    assert qkv.attend(large, large).explain(0, 0).dot == np.inf


def test_the_transposed_map_is_an_array_too():
    A = qkv.attend(*normal(8, (4, 3), (5, 3)))
    np.testing.assert_array_equal(np.asarray(A.T), A.dense().T)
    np.testing.assert_allclose(A @ np.asarray(A.T), A.dense() @ A.dense().T, rtol=1e-6)
