"""The laws of the map in every array library: the caller's kind in, the caller's kind out, on its device.

NumPy, torch, JAX, and array-api-strict, which allows what the standard allows and nothing more, on two devices.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import qkv
from cases.definition import as64, assert_close_to_definition, exact_and_naive, normal, qkv_arrays, visible_cells
from qkv import biases, masks, measures, scores


@dataclass(frozen=True)
class Case:
    """How a library makes an array from NumPy's, what class and device it then is, and which dtypes it has."""

    make: Callable[[np.ndarray], Any]
    back: Callable[[Any], np.ndarray]
    device: str
    dtypes: tuple[str, ...]

    def __call__(self, array: np.ndarray) -> Any:
        return self.make(array)


def _torch() -> Case:
    torch = pytest.importorskip("torch", reason="torch is not installed")

    def make(x: np.ndarray) -> Any:
        if x.dtype == ml_dtypes.bfloat16:
            return torch.from_numpy(x.astype(np.float32)).bfloat16()
        return torch.from_numpy(np.array(x))

    def back(x: Any) -> np.ndarray:
        return as64(x).astype(np.float32) if x.dtype == torch.bfloat16 else x.numpy()

    return Case(make, back, "cpu", ("float16", "bfloat16", "float32", "float64"))


def _jax() -> Case:
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    device = jax.devices("cpu")[0]
    return Case(jax.numpy.asarray, np.asarray, str(device), ("float16", "bfloat16", "float32"))


def _strict(device: str) -> Case:
    xp = pytest.importorskip("array_api_strict", reason="array-api-strict is not installed")
    there = xp.Device(device)

    def back(x: Any) -> np.ndarray:
        return np.asarray(np.from_dlpack(xp.asarray(x, device=xp.Device("CPU_DEVICE"))))

    return Case(lambda x: xp.asarray(x, device=there), back, str(there), ("float32", "float64"))


LIBRARIES: dict[str, Callable[[], Case]] = {
    "numpy": lambda: Case(lambda x: x, lambda x: x, "cpu", ("float16", "bfloat16", "float32", "float64")),
    "torch": _torch,
    "jax": _jax,
    "strict": lambda: _strict("CPU_DEVICE"),
    "strict on another device": lambda: _strict("device1"),
}


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> Case:
    return LIBRARIES[request.param]()


def same_kind(got: Any, like: Any, library: Case) -> np.ndarray:
    """The result on the host, once it is seen to be of the caller's class and device."""
    assert type(got) is type(like) and str(getattr(got, "device", "cpu")) == library.device
    return library.back(got)


def problem(dtype: str, n_q: int = 131, n_k: int = 1030) -> list[np.ndarray]:
    return qkv_arrays(3, n_q, n_k, batch=2, heads=4, kv_heads=2, d_v=5, dtype=np.dtype(dtype))


PROBLEMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"causal": True},
    "window, capped": {"window": (200, 3), "softcap": 2.0, "temperature": 0.7},
    "lengths": {"lengths": [0, 1025]},
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_output_weights_and_lse_are_the_definitions_in_every_library(library, name, dtype):
    if dtype not in library.dtypes:
        return  # the library has no such dtype
    host = problem(dtype)
    q, k, v = map(library, host)
    A = qkv.attend(q, k, **PROBLEMS[name])
    visible = visible_cells((2, 4, 131, 1030), **PROBLEMS[name])
    rest = {key: value for key, value in PROBLEMS[name].items() if key in ("softcap", "temperature")}
    exact, naive = exact_and_naive(*host, visible=visible, **rest)
    work = np.dtype(np.float64 if dtype == "float64" else np.float32)
    assert A.dtype == q.dtype == (A @ v).dtype == A.dense().dtype
    assert_close_to_definition(same_kind(A @ v, q, library), exact.out, naive.out, host[0].dtype)
    assert_close_to_definition(same_kind(A.dense(), q, library), exact.weights, naive.weights, host[0].dtype)
    lse = same_kind(A.lse(), q, library)
    assert lse.dtype == work
    assert_close_to_definition(lse, exact.lse, naive.lse, work)


def test_every_measure_is_that_of_numpy_in_every_library(library):
    host = problem("float32")
    q, k, _ = map(library, host)
    wanted = [measures.entropy(), measures.effective_keys(2), measures.peak(), measures.received(True), measures.lse(),
              measures.mass([0, 5]), measures.local(3), measures.diagonal(-1), measures.image(9),
              measures.image(7, pool="max"), measures.induction(np.arange(1030) % 7)]  # fmt: skip
    got = qkv.attend(q, k, causal=True).measure(*wanted)
    for value, one, other in zip(wanted, got, qkv.attend(*host[:2], causal=True).measure(*wanted), strict=True):
        np.testing.assert_allclose(same_kind(one, q, library), other, rtol=2e-5, atol=2e-6, err_msg=repr(value))
    A = qkv.attend(q, k, causal=True)
    top, logit, mass = A.top(3), A.max_logit(), A.mass(labels=np.arange(1030) % 3)
    assert isinstance(top, measures.Top) and isinstance(logit, measures.MaxLogit)
    NumPy = qkv.attend(*host[:2], causal=True)
    np.testing.assert_array_equal(same_kind(top.key, q, library), NumPy.top(3).key)
    np.testing.assert_array_equal(same_kind(logit.key, q, library), NumPy.max_logit().key)
    np.testing.assert_allclose(
        same_kind(mass.share, q, library), NumPy.mass(labels=np.arange(1030) % 3).share, rtol=1e-5
    )


def test_rows_rectangles_and_cells_are_those_of_the_dense_map_in_every_library(library):
    q, k, _ = map(library, problem("float32", 20, 30))
    A = qkv.attend(q, k, causal=True)
    dense = same_kind(A.dense(), q, library)
    for index in [(0, 1, 7), (1, slice(None), slice(3, 9), 4), (..., [1, 5], slice(None)), (0, [1, 2], [3, 4], [5, 6])]:
        # no library but NumPy promises the same bits for a part of a tile
        np.testing.assert_allclose(same_kind(A[index], q, library), dense[index], rtol=1e-6)
    np.testing.assert_allclose(same_kind(A[1].dense(), q, library), dense[1], rtol=1e-6)
    np.testing.assert_allclose(np.asarray(A), dense)
    scores = same_kind(A.scores("biased")[1, 2].dense(), q, library)
    np.testing.assert_allclose(np.exp(scores - same_kind(A[1, 2].lse(), q, library)[:, None]), dense[1, 2], rtol=2e-5)
    assert A.explain(0, 1, 7, 3).weight == pytest.approx(float(dense[0, 1, 7, 3]))


def test_the_plan_says_where_it_computes(library):
    plan = qkv.attend(*map(library, problem("float32")[:2])).plan()
    assert plan.device == library.device and plan.library in str(plan) and plan.device in str(plan)


def test_what_goes_back_to_the_keys_keeps_its_library(library):
    host = problem("float32", 20, 30)
    q, k, v = map(library, host)
    (x,) = normal(4, (2, 4, 20, 3))
    A = qkv.attend(q, k, causal=True)
    dense = library.back(A.dense()).astype(np.float64)
    np.testing.assert_allclose(
        same_kind(A.T @ library(x), q, library), dense.swapaxes(-1, -2) @ x, rtol=1e-5, atol=1e-5
    )
    rows = library(np.ascontiguousarray(x.swapaxes(-1, -2)))
    np.testing.assert_allclose(
        same_kind(A.__rmatmul__(rows), q, library), x.swapaxes(-1, -2) @ dense, rtol=1e-5, atol=1e-5
    )
    column = library(np.ones(30, np.float32))
    np.testing.assert_allclose(same_kind(A @ column, q, library), dense.sum(-1), rtol=1e-5)
    np.testing.assert_array_equal(same_kind(A.T.dense(), q, library), library.back(A.dense()).swapaxes(-1, -2))
    out, lse = qkv.merge([(A @ v, A.lse())])
    np.testing.assert_allclose(same_kind(out, q, library), library.back(A @ v))
    assert same_kind(lse, q, library).shape == (2, 4, 20)


def test_masks_biases_sinks_and_scores_may_be_of_any_library(library):
    host = problem("float32", 20, 30)
    q, k, v = map(library, host)
    mask, bias = np.random.default_rng(0).random((20, 30)) < 0.6, normal(6, (4, 20, 30))[0]
    arguments = {"sinks": normal(7, (4,))[0], "lengths": np.array([30, 9]), "bias": bias, "mask": mask}
    got = qkv.attention(q, k, v, **{name: library(value) for name, value in arguments.items()})
    np.testing.assert_allclose(same_kind(got, q, library), qkv.attention(*host, **arguments), rtol=2e-5, atol=1e-6)
    ids = np.arange(30) // 7
    rule = masks.segments(library(ids[:20]), library(ids)) & masks.causal(library(np.array([3, 9])))
    wanted = qkv.attention(*host, mask=masks.segments(ids[:20], ids) & masks.causal([3, 9]))
    np.testing.assert_allclose(same_kind(qkv.attention(q, k, v, mask=rule), q, library), wanted, rtol=2e-5, atol=1e-6)
    w, w_q, w_k, u = normal(8, (8, 8), (8, 6), (8, 6), (6,))
    for make in (lambda f: scores.Bilinear(f(w)), lambda f: scores.Additive(f(w_q), f(w_k), f(u))):
        wanted = qkv.attention(*host, score=make(lambda x: x))
        got = qkv.attention(q, k, v, score=make(library), bias=biases.alibi(library(np.zeros(4, np.float32))))
        np.testing.assert_allclose(same_kind(got, q, library), wanted, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)])
def test_any_size_may_be_zero_in_every_library(library, shape):
    q, k, v = (library(np.ones((2, n, 3), np.float32)) for n in (*shape, shape[1]))
    A = qkv.attend(q, k, causal=True)
    assert same_kind(A @ v, q, library).shape == (2, shape[0], 3) and not library.back(A @ v).any()
    assert same_kind(A.received(), q, library).shape == (2, shape[1])
    assert same_kind(A.dense(), q, library).shape == (2, *shape)


def test_a_nan_reaches_only_those_who_see_it_in_every_library(library):
    host = problem("float32")
    clean = library.back(qkv.attention(*map(library, host), causal=True))
    q, k, v = (x.copy() for x in host)
    q[1, 2, 50] = np.nan
    k[..., 1000:, :], v[..., 1000:, :] = np.nan, np.inf
    out = library.back(qkv.attention(*map(library, (q, k, v)), causal=True))
    assert not np.isfinite(out[1, 2, 50]).any() and not np.isfinite(out[..., 101:, :]).any()
    keep = np.ones((2, 4, 101), bool)
    keep[1, 2, 50] = False
    np.testing.assert_array_equal(out[..., :101, :][keep], clean[..., :101, :][keep])


def test_one_call_takes_arrays_of_one_library_on_one_device():
    strict = pytest.importorskip("array_api_strict", reason="array-api-strict is not installed")
    one, other = (
        strict.ones((3, 4), dtype=strict.float32, device=strict.Device(name)) for name in ("CPU_DEVICE", "device1")
    )
    with pytest.raises(
        qkv.DTypeError, match=r"q is a array_api_strict array on .*CPU.* and k .* on .*device1.*one device"
    ):
        qkv.attend(one, other)
    with pytest.raises(qkv.DTypeError, match="v a numpy array"):
        qkv.attend(one, one) @ np.ones((3, 4), np.float32)


def test_what_jax_traces_is_refused_by_name():
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    x = jax.numpy.ones((3, 4))
    for run in (jax.jit(lambda q: qkv.attend(q, x) @ x), jax.grad(lambda q: (qkv.attend(q, x) @ x).sum())):
        with pytest.raises(qkv.ArgumentError, match="q is traced by jax"):
            run(x)
