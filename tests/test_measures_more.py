"""Distance, duplicates, saturation, contribution, similarity, score spread: against their formulas on dense weights."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import qkv
from cases.definition import as64, assert_close_to_definition, define, normal, qkv_arrays
from dense import IDS, N_K, N_Q, PROBLEMS, dense, placed, problem, visible_of
from qkv import measures

V, W_O = normal(21, (1, 1, N_K, 5), (10, 7))  # one value head for two heads of the map
OTHER_Q, OTHER_K, _ = qkv_arrays(22, N_Q, N_K)
LOW = 0.02  # a threshold that some rows of random maps are above


def ratio(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a / b, 0 where b is 0."""
    return np.where(b == 0, 0, a / np.where(b == 0, 1, b))


def moments(w: np.ndarray, d: np.ndarray, edges: np.ndarray) -> tuple[np.ndarray, ...]:
    """Mean and variance of d under w in each row, the edges, and all weight between each two of them."""
    mean = ratio((w * d).sum(-1), w.sum(-1))
    variance = ratio((w * (d - mean[..., None]) ** 2).sum(-1), w.sum(-1))
    inside = [(edges[b] <= d) & (d < edges[b + 1]) for b in range(len(edges) - 1)]
    return mean, variance, edges, np.stack([np.where(cells, w, 0).sum((-2, -1)) for cells in inside], axis=-1)


def along(w: np.ndarray, name: str, absolute: bool = False) -> tuple[np.ndarray, ...]:
    _, i, j = placed(w, name)
    back = [0, *(2**b for b in range(12))]  # 1030 keys: at most 1029 back, 130 ahead
    ahead = [] if absolute else [1 - 2**b for b in range(8, 0, -1)]
    return moments(w, np.abs(i - j) if absolute else i - j, np.array(ahead + back))


def duplicates(w: np.ndarray, name: str) -> np.ndarray:
    _, i, j = placed(w, name)
    return np.where((IDS[i] == IDS) & (j < i), w, 0).sum(-1)


def saturation(w: np.ndarray, name: str) -> tuple[np.ndarray, ...]:
    seen = visible_of(w.shape, name).any(-1)
    return (w * (1 - w)).sum(-1), (w.max(-1) > LOW)[..., seen].mean(-1)


def contribution(w: np.ndarray) -> np.ndarray:
    v, w_o = V.astype(w.dtype), W_O.astype(w.dtype)
    norms = [np.sqrt(((v[:, 0] @ part) ** 2).sum(-1)) for part in (w_o[:5], w_o[5:])]
    return w.sum(-2) * np.stack(norms, axis=1)


def divergence(w: np.ndarray) -> np.ndarray:
    seen = (placed(w, "plain")[2] >= 3) & visible_of(w.shape, "causal")
    other = define(OTHER_Q, OTHER_K, np.ones_like(OTHER_K), dtype=w.dtype.type, visible=seen, sinks=[0, 1]).weights
    middle = (w + other) / 2
    terms = [p * np.log(np.where(p > 0, ratio(p, middle), 1)) for p in (w, other)]
    return (terms[0] + terms[1]).sum(-1) / 2


def other_map(dtype: Any) -> qkv.AttentionMap:
    late = np.arange(N_K) >= 3
    return qkv.attend(OTHER_Q.astype(dtype), OTHER_K.astype(dtype), causal=True, mask=late, sinks=[0, 1])


def spread(s: np.ndarray) -> tuple[np.ndarray, ...]:
    sees = ~np.isneginf(s)
    n, s = sees.sum(-1), np.where(sees, s, 0)
    mean = ratio(s.sum(-1), n)
    squares = (np.where(sees, s - mean[..., None], 0) ** 2).sum(-1)
    middle = (s.sum((-2, -1)) / n.sum(-1))[..., None, None]
    overall = np.sqrt((np.where(sees, s - middle, 0) ** 2).sum((-2, -1)) / n.sum(-1))
    return mean, np.sqrt(ratio(squares, n)), overall


Parts = np.ndarray | tuple[np.ndarray, ...]
MEASURES: dict[str, tuple[Callable[[Any], measures.Measure], Callable[[np.ndarray, np.ndarray, str], Parts]]] = {
    "distance": (lambda dtype: measures.distance(), lambda w, s, name: along(w, name)),
    "distance, absolute": (lambda dtype: measures.distance(absolute=True), lambda w, s, name: along(w, name, True)),
    "duplicate": (lambda dtype: measures.duplicate(IDS), lambda w, s, name: duplicates(w, name)),
    "saturation": (lambda dtype: measures.saturation(LOW), lambda w, s, name: saturation(w, name)),
    "contribution": (
        lambda dtype: measures.contribution(V.astype(dtype), W_O.astype(dtype)),
        lambda w, s, name: contribution(w),
    ),
    "similar": (lambda dtype: measures.similar(other_map(dtype)), lambda w, s, name: divergence(w)),
    "spread": (lambda dtype: measures.spread(), lambda w, s, name: spread(s)),
}


@cache
def weights_and_scores(name: str, given: Any, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    q, k, arguments = problem(name, given)
    return dense(q, k, name, arguments, dtype)


def parts(result: Any) -> tuple[Any, ...]:
    return tuple(result) if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("measure", MEASURES)
def test_a_measure_equals_its_formula_on_dense_float64_weights_and_scores(measure, name, dtype):
    value, formula = MEASURES[measure]
    q, k, arguments = problem(name, dtype)
    got = parts(qkv.attend(q, k, **arguments).measure(value(dtype))[0])
    wide = np.float64 if dtype == np.float32 else np.longdouble
    exact, naive = (parts(formula(*weights_and_scores(name, dtype, each), name)) for each in (wide, dtype))
    for each, want, rough in zip(got, exact, naive, strict=True):
        assert each.dtype in (dtype, np.int64)
        assert_close_to_definition(each, want, [rough], dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("class_tokens", [0, 1, 5])
def test_distance_on_a_grid_equals_the_formula_on_dense_float64_weights(class_tokens, dtype):
    height, width, patch = 9, 16, 14
    n = class_tokens + height * width
    q, k, _ = qkv_arrays(23, n, n, dtype=dtype)
    value = measures.distance(grid=(height, width), class_tokens=class_tokens, patch=patch)
    got = qkv.attend(q, k).measure(value)[0]
    y, x = np.divmod(np.arange(n) - class_tokens, width)
    place = np.arange(n) >= class_tokens
    answers = []
    for each in (np.float64 if dtype == np.float32 else np.longdouble, dtype):
        w = define(q, k, np.ones_like(k), dtype=each).weights * (place[:, None] & place)
        d = patch * np.sqrt(((y[:, None] - y) ** 2 + (x[:, None] - x) ** 2).astype(each))
        answers.append(moments(w, d, np.array([0, 1, 2, 4, 8, 16, 32], each) * patch))
    for each, want, rough in zip(got, *answers, strict=True):
        assert each.dtype == dtype
        assert_close_to_definition(each, want, [rough], dtype)
    assert (got.mean[..., :class_tokens] == 0).all()


@pytest.mark.parametrize("shape", [(0, 7), (5, 7), (5, 0)])
@pytest.mark.parametrize("measure", MEASURES)
def test_a_picked_head_and_a_map_without_queries_or_keys(measure, shape):
    A = qkv.attend(*normal(3, (2, 4, shape[0], 3), (2, 2, shape[1], 3)))
    v, w_o = normal(4, (2, 2, shape[1], 3), (12, 5))
    value = {
        "duplicate": measures.duplicate(np.arange(shape[1]) % 3),
        "contribution": measures.contribution(v, w_o),
        "similar": measures.similar(qkv.attend(np.ones((shape[0], 3), "f"), np.ones((shape[1], 3), "f"))),
    }.get(measure)
    value = value or MEASURES[measure][0](np.float32)
    whole = parts(A.measure(value)[0])
    for index in [(1,), (0, 3), (slice(None), 2), ([1, 0, 1],), (slice(None), slice(1, 3))]:
        for one, all_heads in zip(parts(A[index].measure(value)[0]), whole, strict=True):
            np.testing.assert_array_equal(one, all_heads[index] if all_heads.ndim > 1 else all_heads)
    assert all(np.isfinite(each).all() for each in whole)


def test_many_measures_in_one_walk_are_each_what_it_is_alone():
    q, k, arguments = problem("holes", np.float32)
    A = qkv.attend(q, k, **arguments)
    values = [value(np.float32) for value, _ in MEASURES.values()]
    for value, together in zip(values, A.measure(*values), strict=True):
        for one, other in zip(parts(together), parts(A.measure(value)[0]), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_nan_that_a_query_sees_is_in_the_measures_of_that_query_alone(bad):
    q, k = normal(4, (200, 8), (1100, 8))
    clean = qkv.attend(q, k, causal=True)
    broken = q.copy()
    broken[150] = bad
    A = qkv.attend(broken, k, causal=True)
    others = np.arange(200) != 150
    values = [measures.distance(), measures.duplicate(np.zeros(1100, int)), measures.saturation(), measures.spread()]
    for value in [*values, measures.similar(clean[()] if clean.ndim > 2 else clean)]:
        got, want = (parts(each.measure(value)[0])[0] for each in (A, clean))
        assert np.isnan(got[150]) or bad == np.inf
        np.testing.assert_array_equal(got[others], want[others])
    assert np.isnan(clean.measure(measures.similar(A))[0][150])
    slope, share = A.measure(measures.saturation())[0]
    assert np.isnan(slope[150]) and np.isnan(share)
    given = A.measure(measures.contribution(np.ones((1100, 2), "f"), np.eye(2, dtype="f")))[0]
    histogram = A.measure(measures.distance())[0].histogram
    assert np.isnan(given[:1051]).all() and np.isfinite(given[1051:]).all()
    assert np.isfinite(histogram[:8]).all() and np.isnan(histogram[8:]).all(), "no query looks ahead"


REFUSED: dict[str, tuple[Callable[[], measures.Measure], type[Exception], str]] = {
    "threshold": (lambda: measures.saturation(1.5), qkv.ArgumentError, "from 0 to 1"),
    "threshold of another type": (lambda: measures.saturation("high"), qkv.DTypeError, "real number"),
    "grid": (lambda: measures.distance(grid=4), qkv.ArgumentError, r"\(height, width\)"),
    "grid of nothing": (lambda: measures.distance(grid=(0, 4)), qkv.ArgumentError, "at least 1 patch"),
    "grid of another size": (lambda: measures.distance(grid=(2, 3)), qkv.ShapeError, "n_q = 4 and n_k = 5"),
    "grid and offset": (lambda: measures.distance(0, grid=(2, 2)), qkv.ArgumentError, "offset=.*or grid="),
    "class tokens": (lambda: measures.distance(class_tokens=1), qkv.ArgumentError, "grid="),
    "patch": (lambda: measures.distance(grid=(2, 2), patch=0), qkv.ArgumentError, "above 0"),
    "infinite patch": (lambda: measures.distance(grid=(2, 2), patch=np.inf), qkv.ArgumentError, "finite"),
    "offset": (lambda: measures.distance([1, 2]), qkv.ShapeError, "offset of distance"),
    "ids": (lambda: measures.duplicate([1, 2]), qkv.ShapeError, "ids of duplicate.*n_k = 5"),
    "float ids": (lambda: measures.duplicate([0.5] * 5), qkv.DTypeError, "ids of duplicate.*integers"),
    "v": (lambda: measures.contribution(np.ones((4, 2)), np.eye(2)), qkv.ShapeError, r"\(n_k, d_v\)"),
    "w_o": (lambda: measures.contribution(np.ones((5, 2)), np.eye(3)), qkv.ShapeError, r"1 · 2"),
    "complex v": (lambda: measures.contribution(np.ones((5, 2)) * 1j, np.eye(2)), qkv.DTypeError, "v of contribution"),
    "an array": (lambda: measures.similar(np.eye(4)), qkv.DTypeError, "attention map"),
    "scores": (lambda: measures.similar(even(4, 5).scores()), qkv.DTypeError, "attention map"),
    "another size": (lambda: measures.similar(even(5, 5)), qkv.ShapeError, r"\(4, 5\)"),
    "more heads": (lambda: measures.similar(even(2, 4, 5)), qkv.ShapeError, "broadcasts"),
}


def even(*shape: int) -> qkv.AttentionMap:
    return qkv.attend(np.zeros((*shape[:-1], 3)), np.zeros((*shape[:-2], shape[-1], 3)))


@pytest.mark.parametrize("what", REFUSED)
def test_a_wrong_argument_of_a_measure_is_named(what):
    measure, kind, message = REFUSED[what]
    with pytest.raises(kind, match=message):
        even(4, 5).measure(measure())


def test_v_has_a_head_for_each_group_of_heads():
    for heads in (3, 0):
        value = measures.contribution(np.ones((heads, 5, 2)), np.ones((8, 2)))
        with pytest.raises(qkv.ShapeError, match=f"has {heads} heads.*divides 4"):
            even(4, 4, 5).measure(value)


def test_sixteen_bit_inputs_are_measured_in_float32_and_tensors_come_back_as_tensors():
    torch = pytest.importorskip("torch", reason="compares with tensors")
    q, k, v = (torch.from_numpy(each).to(torch.bfloat16) for each in qkv_arrays(5, 20, 20))
    A = qkv.attend(q, k)
    values = [measures.distance(), measures.saturation(), measures.spread(), measures.similar(A[:, 0])]
    values += [measures.contribution(v, torch.eye(16, dtype=torch.bfloat16))]
    plain = qkv.attend(as64(q).astype("f"), as64(k).astype("f"))
    for value, got in zip(values, A.measure(*values), strict=True):
        for one, other in zip(parts(got), parts(plain.measure(value)[0]), strict=True):
            assert one.dtype in (torch.float32, torch.int64)
            np.testing.assert_allclose(one.numpy(), other, rtol=1e-5, atol=1e-6)
