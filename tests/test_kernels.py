"""The compiled kernels compute what the tile walk computes, for everything that they take, and say what they don't."""

import itertools
from typing import Any

import numpy as np
import pytest

import qkv
import running
from cases.definition import (
    BFLOAT16,
    DTYPES,
    NARROW_AND_WIDE,
    as64,
    assert_close_to_definition,
    assert_same,
    bits,
    normal,
    qkv_arrays,
)  # fmt: skip
from qkv import _kernel, biases, masks, measures, scores

pytestmark = running.needs_kernel


def assert_as_the_walk(q: Any, k: Any, v: Any, **how: Any) -> Any:
    """The kernel's error is at most twice the walk's and 4 ulp, both against the walk in float64; -> A @ v.

    How a sum rounds is a throw of the dice: the walk throws again, with channels, and keys that no argument names, in
    another order.
    """
    A = qkv.attend(q, k, **how)
    assert A.plan().path == f"kernel {_kernel.chosen()}"
    out, other = A @ v, running.walked(q, k, v, **how)
    assert type(out) is type(other) and out.dtype == other.dtype
    dtype = BFLOAT16 if str(out.dtype) == "torch.bfloat16" else np.dtype(str(out.dtype).removeprefix("torch."))
    if dtype == np.float64:
        assert_same(np.asarray(out), np.asarray(other))
    else:
        exact = running.walked(as64(q), as64(k), as64(v), **how)
        again = (running.walked(*_in_another_order(q, k, v, seed, keys=not how), **how) for seed in range(8))
        if not how and dtype == np.float32 and q.shape[-1]:
            again = itertools.chain(again, [running.walked(q * float(q.shape[-1]) ** -0.5, k, v, scale=1.0)])
        assert_close_to_definition(out, exact, itertools.chain([other], again), dtype)
    return out


def _in_another_order(q: Any, k: Any, v: Any, seed: int, keys: bool) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    channels, order = rng.permutation(q.shape[-1]), np.arange(k.shape[-2])
    order = rng.permutation(order) if keys else order
    return q[..., channels], k[..., order, :][..., channels], v[..., order, :]


# Which one runs, and why.


def test_every_kernel_is_listed_with_its_reason_and_one_is_chosen(monkeypatch):
    monkeypatch.delenv("QKV_KERNEL", raising=False)
    listed = qkv.kernels()
    assert len({kernel.name for kernel in listed}) == len(listed) and listed[-1].name == "walk"
    assert sum(kernel.chosen for kernel in listed) == 1 and all(kernel.reason for kernel in listed)
    assert next(kernel for kernel in listed if kernel.runs).chosen, "the best that can run is the chosen one"
    for kernel in listed:
        assert str(kernel) == f"{kernel.name}: {'chosen, ' if kernel.chosen else ''}{kernel.reason}"
        assert kernel.name == "walk" or ("lacks" in kernel.reason) != kernel.runs


@pytest.mark.parametrize("name", running.NAMES)
def test_a_kernel_is_chosen_by_its_name(name, monkeypatch):
    monkeypatch.setenv("QKV_KERNEL", name)
    assert [kernel.name for kernel in qkv.kernels() if kernel.chosen] == [name]
    A = qkv.attend(*normal(1, (4, 3), (5, 3)))
    path = "tile walk" if name == "walk" else f"kernel {name}"
    assert A.plan().path == path and f"path={path}" in repr(A) and str(A.plan()).startswith(path)


def test_a_kernel_that_is_not_there_is_refused_with_those_that_are(monkeypatch):
    monkeypatch.setenv("QKV_KERNEL", "v5")
    with pytest.raises(qkv.ArgumentError, match=r"QKV_KERNEL is 'v5'; expected one of") as refused:
        qkv.attention(*normal(1, (4, 3), (5, 3), (5, 2)))
    assert all(name in str(refused.value) for name in running.NAMES)


SEEN = np.random.default_rng(0).random((9, 12)) < 0.6
TO_THE_WALK = {
    "a mask that joins by or": ({"mask": masks.causal() | masks.window(1, 1)}, "mask"),
    "a mask turned round": ({"mask": ~masks.dense(SEEN)}, "mask"),
    "two arrays as masks": ({"mask": masks.dense(SEEN) & masks.dense(SEEN[::-1])}, "one array"),
    "two arrays as biases": ({"bias": biases.dense(SEEN * 1.0) + biases.dense(SEEN * 2.0)}, "one array"),
    "an additive score": ({"score": scores.Additive(*normal(2, (8, 4), (8, 4), (4,)))}, "score is Additive"),
    "a bilinear score": ({"score": scores.Bilinear(*normal(2, (8, 8)))}, "score is Bilinear"),
}


@pytest.mark.parametrize("case", TO_THE_WALK)
def test_what_no_kernel_takes_goes_to_the_walk_and_the_plan_says_why(case, compiled):
    how, why = TO_THE_WALK[case]
    q, k, v = qkv_arrays(3, 9, 12)
    A = qkv.attend(q, k, **how)
    plan = A.plan()
    assert plan.path == "tile walk" and why in plan.reason and plan.reason in str(plan)
    assert "path=tile walk" in repr(A)
    assert bits(A @ v) == bits(running.walked(q, k, v, **how))


def test_arrays_of_another_library_go_to_the_walk(compiled):
    jax = pytest.importorskip("jax.numpy", reason="JAX is not installed")
    q, k, v = (jax.asarray(x) for x in qkv_arrays(3, 9, 12))
    A = qkv.attend(q, k)
    assert A.plan().path == "tile walk" and "jax" in A.plan().reason and (A @ v).shape == (1, 2, 9, 8)


# The same numbers as the walk.

ARGUMENTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"causal": True},
    "causal with an offset": {"causal": masks.causal(offset=3)},
    "window and cap": {"window": (20, 3), "softcap": 2.0},
    "sinks": {"sinks": [0.5, -np.inf], "causal": True},
    "lengths": {"lengths": [30]},
    "mask and bias": {"mask": np.arange(140)[:, None] % 7 != np.arange(70) % 5, "bias": np.linspace(-2, 2, 70)},
    "scale and temperature": {"scale": -0.7, "temperature": 0.5},
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_a_kernel_computes_what_the_walk_does(arguments, dtype, compiled):
    q, k, v = qkv_arrays(4, 140, 70, d_k=24, d_v=17, dtype=dtype)
    assert_as_the_walk(q, k, v, **ARGUMENTS[arguments])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_tensors_give_what_the_walk_gives_and_are_not_copied_first(dtype, compiled):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    q, k, v = (torch.from_numpy(x).to(getattr(torch, dtype)) for x in qkv_arrays(5, 70, 140, d_k=24, d_v=16))
    out = assert_as_the_walk(q, k, v, causal=True, softcap=3.0)
    for view in (lambda x: x.mT.contiguous().mT, lambda x: torch.cat([x, x], -1)[..., : x.shape[-1]]):
        assert bits(as64(qkv.attention(view(q), view(k), view(v), causal=True, softcap=3.0))) == bits(as64(out))


@pytest.mark.parametrize("d_v", [0, 1, 7, 8, 9, 65])
@pytest.mark.parametrize("d_k", [*range(10), 63, 64, 65, 100])
def test_any_width_is_right(d_k, d_v, compiled):
    for dtype in NARROW_AND_WIDE:
        q, k, v = qkv_arrays(6, 17, 66, d_k=d_k, d_v=d_v, dtype=dtype)
        assert_as_the_walk(q, k, v)


@pytest.mark.parametrize("n_k", [1, 7, 8, 9, 63, 64, 65, 129])
@pytest.mark.parametrize("n_q", [1, 3, 4, 5, 11, 12, 13, 15, 16, 17, 47, 48, 49, 63, 64, 65, 383, 384, 385, 769])
def test_any_number_of_queries_and_keys_is_right(n_q, n_k, compiled):
    q, k, v = qkv_arrays(7, n_q, n_k, heads=1, d_k=6, d_v=5)
    out = assert_as_the_walk(q, k, v)
    assert out.shape == (1, 1, n_q, 5)
    assert_as_the_walk(q, k, v, causal=True)
    assert_as_the_walk(q, k, v, mask=np.random.default_rng(n_q).random((n_q, n_k)) < 0.5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("n_k", [95, 96, 97, 192, 200, 300])
@pytest.mark.parametrize("d_k", [64, 128])
def test_exponentials_of_a_tile_among_the_products_of_the_next_are_right(d_k, n_k, dtype, compiled):
    """Widths that models have, over several tiles, in blocks of three vectors and fewer; values in place or copied."""
    for n_q in (48, 130):
        arrays = qkv_arrays(n_k, n_q, n_k, d_k=d_k, d_v=24)
        q, k, v = (x.astype(BFLOAT16 if dtype == "bfloat16" else dtype) for x in arrays)
        out = assert_as_the_walk(q, k, v)
        assert bits(assert_as_the_walk(q, k, v[..., ::-1])[..., ::-1]) == bits(out)
        assert_as_the_walk(q, k, v, causal=True)
        A = qkv.attend(q, k)
        beside, entropy, largest = A.measure(measures.output(v), measures.entropy(), measures.max_logit())
        assert bits(beside) == bits(out) and bits(entropy) == bits(A.entropy())
        score = A.scores().dense()
        assert bits(largest.value) == bits(score.max(-1)) and (largest.key == score.argmax(-1)).all()


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_shared_and_broadcast_keys_and_values_are_read_in_place(kv_heads, compiled):
    q, k, v = qkv_arrays(8, 50, 70, batch=3, heads=8, kv_heads=kv_heads)
    out = assert_as_the_walk(q, k, v, lengths=[70, 0, 31], causal=True)
    one = assert_as_the_walk(q, k[:1], v[:1], lengths=[70, 0, 31], causal=True)
    assert bits(one[0]) == bits(out[0]) and (out[1] == 0).all()
    assert_as_the_walk(q[:1], k, v, sinks=np.arange(8.0))


def test_a_picked_map_reads_its_own_heads(compiled):
    q, k, v = qkv_arrays(9, 50, 70, batch=2, heads=4, kv_heads=2)
    mask, bias = np.random.default_rng(1).random((2, 4, 50, 70)) < 0.7, normal(10, (4, 1, 70))[0]
    how: dict[str, Any] = {
        "mask": mask,
        "bias": biases.dense(bias) + biases.alibi(),
        "sinks": [0.0, 1.0, -1.0, -np.inf],
    }
    A = qkv.attend(q, k, causal=masks.causal(offset=[20, -3]), **how)
    full, wide = A @ v, np.repeat(v, 2, axis=1)
    assert bits(A[0] @ v[0]) == bits(full[0]) and bits(A[::-1] @ v[::-1]) == bits(full[::-1])
    assert bits(A[:, 1:3] @ wide[:, 1:3]) == bits(full[:, 1:3])
    assert bits(A[1, [3, 0]] @ wide[1, [3, 0]]) == bits(full[1, [3, 0]])
    assert_as_the_walk(q, k, v, causal=masks.causal(offset=[20, -3]), **how)


BIASES = {
    "alibi": biases.alibi(),
    "alibi of chosen slopes": biases.alibi(slopes=[0.1, 2.0, 0.0, 30.0]),
    "alibi, one offset a batch entry": biases.alibi(offset=[5, -8]),
    "relative": biases.relative(normal(11, (32, 4))[0]),
    "relative, one way": biases.relative(normal(11, (32, 4))[0], bidirectional=False, offset=4),
    "a sum": biases.alibi() + biases.relative(normal(11, (16, 4))[0]) + biases.dense(normal(12, (50, 1))[0]),
    "float16": biases.dense(normal(13, (4, 50, 70), dtype=np.float16)[0]),
    "float64 beyond float32": biases.dense(np.where(np.arange(70) % 3 == 0, -1e300, 0.5)),
    "hidden keys": biases.dense(np.where(np.arange(70) % 3 == 0, -np.inf, 0.5)),
    "turned and stretched": biases.dense(np.broadcast_to(normal(14, (70, 50))[0].T[None, ::-1], (4, 50, 70))),
}


@pytest.mark.parametrize("dtype", NARROW_AND_WIDE, ids=str)
@pytest.mark.parametrize("bias", BIASES)
def test_biases_are_what_the_walk_adds(bias, dtype, compiled):
    q, k, v = qkv_arrays(15, 50, 70, batch=2, heads=4, dtype=dtype)
    assert_as_the_walk(q, k, v, bias=BIASES[bias])
    assert_as_the_walk(q, k, v, bias=BIASES[bias], window=(9, None), softcap=5.0)


# NaN, infinities and empty rows; lse and entropy.


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("where", ["q", "k", "v"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, "largest"])
def test_what_is_not_finite_shows_as_in_the_walk(value, where, dtype, compiled):
    arrays = dict(zip("qkv", qkv_arrays(16, 50, 70, dtype=dtype), strict=True))
    arrays[where][0, 0, 40, 1:3] = np.finfo(dtype).max if value == "largest" else value
    for how in ({}, {"causal": True}, {"mask": np.arange(70) != 40}, {"softcap": 2.0, "sinks": [0.0, 1.0]}):
        got, wanted = qkv.attention(**arrays, **how), running.walked(**arrays, **how)
        finite = np.isfinite(wanted)
        np.testing.assert_array_equal(got[~finite], wanted[~finite])
        np.testing.assert_array_equal(np.isfinite(got), finite)
        assert_same(np.where(finite, got, 0)[0, 1], np.where(finite, wanted, 0)[0, 1])


@pytest.mark.parametrize("dtype", NARROW_AND_WIDE, ids=str)
@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_lse_and_entropy_come_with_the_same_pass(arguments, dtype, compiled):
    q, k, v = qkv_arrays(17, 140, 70, d_k=24, dtype=dtype)
    A = qkv.attend(q * 2, k, **ARGUMENTS[arguments])
    problem = A._problem
    out, lse, entropy = _kernel.run(problem, _kernel.form(problem), A._lead, v, ("lse", "entropy"))
    assert bits(out.reshape(A.shape[:-1] + v.shape[-1:])) == bits(A @ v)
    within = 1e-13 if dtype == np.float64 else 3e-6
    np.testing.assert_allclose(lse.reshape(A.shape[:-1]), A.lse(), rtol=within, atol=within)
    np.testing.assert_allclose(entropy.reshape(A.shape[:-1]), A.entropy(), rtol=within, atol=4 * within)


@pytest.mark.parametrize("sinks", [None, [0.5, -np.inf]])
def test_rows_that_see_nothing_are_zero_and_their_lse_is_the_sink(sinks, compiled):
    q, k, v = qkv_arrays(18, 50, 70)
    A = qkv.attend(q, k, causal=masks.causal(offset=-20), sinks=sinks)
    problem = A._problem
    out, lse, entropy = _kernel.run(problem, _kernel.form(problem), A._lead, v, ("lse", "entropy"))
    assert (out[:, :20] == 0).all() and (entropy[:, :20] == 0).all() and (out[:, 20:] != 0).all()
    wanted = [-np.inf, -np.inf] if sinks is None else sinks
    np.testing.assert_array_equal(lse[:, :20], np.repeat(np.float32(wanted)[:, None], 20, 1))
    np.testing.assert_allclose(entropy.reshape(1, 2, 50), A.entropy(), rtol=3e-6, atol=1e-5)
