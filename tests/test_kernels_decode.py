"""Few queries over many keys, which the compiled kernels compute in splits of the keys; and merging of parts."""

from typing import Any

import numpy as np
import pytest

import qkv
import running
from cases.definition import (
    BFLOAT16,
    DTYPES,
    HIDERS,
    NARROW_AND_WIDE,
    as64,
    assert_close_to_definition,
    assert_same,
    bits,
    exact_and_naive,
    normal,
    qkv_arrays,
    visible_cells,
)  # fmt: skip
from qkv import _kernel, biases, masks
from test_kernels_memory import VIEWS, Guarded

pytestmark = running.needs_kernel
MOST = 8  # queries that are few: with more a head has blocks of its own


def assert_right(q: Any, k: Any, v: Any, **how: Any) -> Any:
    """Within the tolerance of the definition; -> A @ v."""
    visible = visible_cells((*q.shape[:-1], k.shape[-2]), **how)
    stages = {name: how[name] for name in ("bias", "softcap", "sinks") if name in how}
    exact, naive = exact_and_naive(q, k, v, visible=visible, **stages)
    out = qkv.attention(q, k, v, **how)
    assert_close_to_definition(out, exact.out, naive.out, q.dtype)
    return out


# What it computes.


@pytest.mark.parametrize("n_k", [1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 130, 1023, 1024, 1025, 2049, 5000])
@pytest.mark.parametrize("n_q", [1, 2, 3, 4, 5, 7, MOST, MOST + 1])
def test_any_number_of_keys_is_right(n_q, n_k, compiled):
    dtype = DTYPES[n_q % len(DTYPES)]
    q, k, v = qkv_arrays(n_q, n_q, n_k, heads=4, kv_heads=2, d_k=16, d_v=24, dtype=dtype)
    assert_right(q, k, v)
    assert_right(q, k, v, causal=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("widths", [range(a, a + 10) for a in range(1, 131, 10)], ids=lambda widths: str(widths[0]))
def test_any_width_is_right(widths, dtype, compiled):
    for width in widths:
        q, k, v = qkv_arrays(width, 2, 70, d_k=width, d_v=131 - width, dtype=dtype)
        assert_right(q, k, v)


ARGUMENTS: dict[str, dict[str, Any]] = {
    "window": {"window": (900, 0)},
    "window on both sides": {"window": (40, 3)},
    "lengths": {"lengths": [2100, 1, 0, 1024]},
    "cap": {"softcap": 2.0, "causal": True},
    "sinks": {"sinks": [0.5, -np.inf, 3.0, 0.0]},
    "mask": {"mask": np.arange(2100) % 7 != np.arange(5)[:, None]},
    "bias": {"bias": np.where(np.arange(2100) % 3 == 0, -np.inf, np.linspace(-2, 2, 2100))},
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_any_argument_is_right(arguments, dtype, compiled):
    q, k, v = qkv_arrays(3, 5, 2100, batch=4, heads=4, kv_heads=2, d_k=32, d_v=40, dtype=dtype)
    out = assert_right(q, k, v, **ARGUMENTS[arguments])
    assert arguments != "lengths" or (out[2] == 0).all()


@pytest.mark.parametrize(
    "bias", [biases.alibi(), biases.relative(normal(4, (32, 4))[0], offset=4)], ids=["alibi", "relative"]
)
def test_biases_by_distance_are_what_the_walk_adds(bias, compiled):
    q, k, v = qkv_arrays(5, 3, 1100, heads=4, dtype=np.float64)
    assert_same(qkv.attention(q, k, v, bias=bias, causal=True), running.walked(q, k, v, bias=bias, causal=True))


@pytest.mark.parametrize("offset", [0, 31, 1000, 1023, 1060, 1090])
def test_a_window_may_lie_anywhere_among_the_splits(offset, compiled):
    q, k, v = qkv_arrays(14, 3, 2100, heads=4, kv_heads=2, dtype=np.float64)
    window = masks.window(40, 9, offset=offset)
    assert_same(qkv.attention(q, k, v, mask=window), running.walked(q, k, v, mask=window))


@pytest.mark.parametrize("dtype", NARROW_AND_WIDE, ids=str)
@pytest.mark.parametrize("where", ["q", "k", "v"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, "largest"])
def test_what_is_not_finite_shows_as_in_the_walk(value, where, dtype, compiled):
    arrays = dict(zip("qkv", qkv_arrays(6, 4, 2100, dtype=dtype), strict=True))
    arrays[where][0, 0, 2, 1:3] = np.finfo(dtype).max if value == "largest" else value
    for how in ({}, {"mask": np.arange(2100) != 2}, {"window": (2099, 0)}):
        got, wanted = qkv.attention(**arrays, **how), running.walked(**arrays, **how)
        finite = np.isfinite(wanted)
        np.testing.assert_array_equal(got[~finite], wanted[~finite])
        np.testing.assert_array_equal(np.isfinite(got), finite)
        assert_same(np.where(finite, got, 0), np.where(finite, wanted, 0))


def test_few_queries_of_many_are_what_they_are_alone_but_for_rounding(compiled):
    q, k, v = qkv_arrays(15, 400, 2100, heads=4, kv_heads=2, d_k=32, d_v=32)
    out = qkv.attention(q, k, v, causal=True)
    few = qkv.attention(q[..., 100:103, :], k, v, causal=masks.causal(offset=2100 - 400 + 100))
    np.testing.assert_allclose(few, out[..., 100:103, :], rtol=1e-5, atol=1e-6)


# The same bits.


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n_q", [1, 3, MOST])
def test_neither_threads_nor_the_batch_nor_a_group_change_a_bit(n_q, dtype, compiled):
    q, k, v = qkv_arrays(7, n_q, 3000, batch=3, heads=8, kv_heads=2, d_k=40, d_v=72, dtype=dtype)
    A = qkv.attend(q, k, causal=True, lengths=[3000, 1025, 77])
    try:
        seen = []
        for n in (1, 2, 3):
            qkv.set_num_threads(n)
            seen.append(A @ v)
    finally:
        qkv.set_num_threads(None)
    out = seen[0]
    assert bits(seen[1]) == bits(out) and bits(seen[2]) == bits(out)
    for b in range(3):
        assert bits(A[b] @ v[b]) == bits(out[b])
        assert bits(A[b, [5, 0, 1]] @ v[b, [1, 0, 0]]) == bits(out[b, [5, 0, 1]])
        assert bits(A[b, 3] @ v[b, 0]) == bits(out[b, 3])


def test_what_is_said_of_rows_beside_them_changes_not_one_bit(compiled):
    q, k, v = qkv_arrays(8, 3, 1500, heads=4, kv_heads=2)
    A = qkv.attend(q, k, sinks=[0.0, 1.0, -np.inf, 2.0])
    problem = A._problem
    out, lse, key = _kernel.run(problem, _kernel.form(problem), A._lead, v, ("lse", "max_key"))
    assert bits(out.reshape(1, 4, 3, 8)) == bits(A @ v)
    assert bits(lse) == bits(A.lse()) and bits(key) == bits(A.max_logit().key)
    with running.kernel("walk"):
        np.testing.assert_allclose(lse.reshape(1, 4, 3), A.lse(), rtol=3e-6)


@pytest.mark.parametrize("garbage", [np.nan, np.inf, -np.inf, 3e38, 0.0])
@pytest.mark.parametrize("hider", HIDERS)
def test_what_is_hidden_changes_not_one_bit(hider, garbage, compiled):
    for dtype in (np.dtype(np.float32), BFLOAT16):
        q, k, v = qkv_arrays(9, 4, 1100, batch=2, heads=2, d_k=32, d_v=32, dtype=dtype)
        arguments, visible = HIDERS[hider]((2, 2, 4, 1100))
        unseen = ~visible.any(-2)
        clean = qkv.attention(q, k, v, **arguments)
        for x in (k, v):
            x[unseen] = garbage
        assert bits(qkv.attention(q, k, v, **arguments)) == bits(clean)


def test_a_query_does_not_know_what_only_others_see(compiled):
    q, k, v = qkv_arrays(10, 5, 1100, heads=4, kv_heads=1)
    clean = qkv.attention(q, k, v, causal=True)
    k[..., 1097:, :] = v[..., 1097:, :] = np.nan  # the last three queries see some of these
    out = qkv.attention(q, k, v, causal=True)
    assert bits(out[..., :2, :]) == bits(clean[..., :2, :]) and np.isnan(out[..., 2:, :]).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("view", VIEWS)
def test_how_the_numbers_lie_changes_not_one_bit(view, dtype, compiled):
    q, k, v = qkv_arrays(11, 3, 1100, batch=2, heads=4, kv_heads=2, d_k=40, d_v=33, dtype=dtype)
    wanted = bits(qkv.attention(q, k, v, causal=True))
    seen = [VIEWS[view](x) for x in (q, k, v)]
    assert bits(qkv.attention(*seen, causal=True)) == wanted
    assert bits(qkv.attention(q, seen[1], v, causal=True)) == bits(qkv.attention(q, k, seen[2], causal=True)) == wanted


@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("n_q", "n_k"), [(1, 1), (2, 31), (3, 33), (MOST, 65)])
def test_not_one_byte_beside_the_arrays_is_read(n_q, n_k, dtype, at_end, compiled):
    guarded = Guarded()
    for d_k, d_v in [(1, 31), (15, 16), (17, 9), (32, 33), (47, 64), (100, 100)]:
        arrays = qkv_arrays(12, n_q, n_k, heads=2, d_k=d_k, d_v=d_v, dtype=dtype)
        q, k, v = (guarded.copy(x, at_end) for x in arrays)
        assert bits(qkv.attention(q, k, v)) == bits(qkv.attention(*arrays))
        assert bits(qkv.attention(q, k, v, causal=True)) == bits(qkv.attention(*arrays, causal=True))


# Merging.


def merged_both_ways(parts: Any) -> tuple[Any, Any]:
    """What the kernel says, held to what plain array code says."""
    found = qkv.merge(parts)
    with running.kernel("walk"):
        plain = qkv.merge(parts)
    for got, wanted in zip(found, plain, strict=True):
        assert type(got) is type(wanted) and got.dtype == wanted.dtype and got.shape == wanted.shape
        within = {"float64": 1e-14, "float32": 1e-6}.get(str(found[0].dtype).removeprefix("torch."), 1e-2)
        np.testing.assert_allclose(as64(got), as64(wanted), rtol=within, atol=within)
    return found


@pytest.mark.parametrize("sums", NARROW_AND_WIDE, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(5,), (3, 0), (0, 5), (2, 100, 65), (1, 2, 3, 16)], ids=str)
def test_parts_are_merged_as_plain_code_merges_them(shape, dtype, sums, compiled):
    outs = [normal(seed, shape, dtype=dtype)[0] for seed in range(4)]
    lses = [normal(seed, shape[:-1], dtype=sums)[0] * 9 for seed in range(4)]
    merged_both_ways(list(zip(outs, lses, strict=True)))
    merged_both_ways([(out[..., ::-1], lse.copy(order="F")) for out, lse in zip(outs, lses, strict=True)])


def test_parts_of_no_weight_and_parts_that_are_not_finite_are_merged_as_plain_code_does(compiled):
    lse = np.array([0.0, -np.inf, np.nan, np.inf, -200.0, 3e4], np.float32)
    parts = [(np.full((6, 6, 3), value, np.float32), lses) for value, lses in
             [(1.0, np.broadcast_to(lse, (6, 6))), (np.nan, np.broadcast_to(lse[:, None], (6, 6)))]]  # fmt: skip
    merged_both_ways(parts)
    out, _ = merged_both_ways([(parts[0][0], parts[0][1]), (parts[1][0], np.full((6, 6), -np.inf, np.float32))])
    assert (out[:, 0] == 1).all() and (out[:, 1] == 0).all()


def test_tensors_are_merged(compiled):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    q, k, v = (torch.from_numpy(x).bfloat16() for x in qkv_arrays(13, 3, 600))
    maps = [qkv.attend(q, k[..., a : a + 200, :]) for a in (0, 200, 400)]
    out, lse = merged_both_ways([(A @ v[..., 200 * at : 200 * at + 200, :], A.lse()) for at, A in enumerate(maps)])
    np.testing.assert_allclose(lse, qkv.attend(q, k).lse(), rtol=1e-5)
    np.testing.assert_allclose(out.float(), qkv.attention(q, k, v).float(), atol=0.01)
