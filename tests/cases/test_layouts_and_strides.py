"""How an array lies in memory never shows, nothing of the caller's is written, and no call remembers another."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import qkv
from cases.definition import (
    BFLOAT16,
    DTYPES,
    as64,
    assert_close_to_definition,
    assert_same,
    bits,
    check,
    exact_and_naive,
    map_shape,
    normal,
    qkv_arrays,
    visible_cells,
    with_dtypes,
)


def _copies(*arrays):
    return [np.ascontiguousarray(x) for x in arrays]


def _check_against_copies(q, k, v, **arguments):
    """The definition holds, and contiguous copies of the same numbers give the same answer."""
    got = check(q, k, v, **arguments)
    copied = check(*_copies(q, k, v), **arguments)
    assert_same(got, copied)
    return got


# B081: pytorch/pytorch#187506
@pytest.mark.parametrize(("size", "dtype"), with_dtypes([(6, 5)], [(129, 1025)]), ids=str)
def test_the_last_axis_may_be_strided(size, dtype):
    n_q, n_k = size
    wide_q, tall_k, wide_v = normal(81, (1, 2, n_q, 16), (1, 2, 8, n_k), (1, 2, n_k, 16), dtype=dtype)
    _check_against_copies(wide_q[..., ::2], np.swapaxes(tall_k, 2, 3), wide_v[..., 1::2])


# B082: pytorch/pytorch#181133
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_heads_may_lie_behind_positions_in_memory(dtype):
    q, k, v = (x.transpose(0, 2, 1, 3) for x in normal(82, *[(6, 4, 5, 64)] * 3, dtype=dtype))
    assert not q.flags.c_contiguous
    _check_against_copies(q, k, v)


@pytest.mark.parametrize("order", ["reversed rows", "reversed channels", "reversed all", "Fortran", "every third row"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_any_stride_will_do(dtype, order):
    view = {
        "reversed rows": lambda x: x[:, :, ::-1],
        "reversed channels": lambda x: x[..., ::-1],
        "reversed all": lambda x: x[::-1, ::-1, ::-1, ::-1],
        "Fortran": np.asfortranarray,
        "every third row": lambda x: x[:, :, ::3],
    }[order]
    q, k, v = (view(x) for x in qkv_arrays(83, 9, 12, batch=2, dtype=dtype))
    _check_against_copies(q, k, v, causal=True)


# B084: pytorch/pytorch#112577
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n_k", [6, 1025])
def test_keys_and_values_may_be_one_head_expanded(n_k, dtype):
    q, one_k, one_v = qkv_arrays(84, 3, n_k, batch=2, heads=4, kv_heads=1, dtype=dtype)
    k, v = (np.broadcast_to(x, (2, 4, n_k, 8)) for x in (one_k, one_v))
    assert k.strides[1] == 0
    expanded = _check_against_copies(q, k, v)
    assert_same(expanded, check(q, one_k, one_v))


# B085: pytorch/pytorch#191937
@pytest.mark.parametrize(("n_k", "dtype"), with_dtypes([33, 1, 65], [1025]), ids=str)
def test_expanded_keys_of_head_size_512_behind_a_mask(n_k, dtype):
    q, one_k, one_v = qkv_arrays(85, 3, n_k, heads=4, kv_heads=1, d_k=512, dtype=dtype)
    k, v = (np.broadcast_to(x, (1, 4, n_k, 512)) for x in (one_k, one_v))
    _check_against_copies(q, k, v, mask=np.arange(n_k) > 3)


# B087: pytorch/pytorch#139424
@pytest.mark.parametrize(("size", "dtype"), with_dtypes([(4, 5)], [(130, 1030)]), ids=str)
def test_mask_and_bias_may_be_views(size, dtype):
    n_q, n_k = size
    q, k, v = qkv_arrays(87, n_q, n_k, dtype=dtype)
    (tall,) = normal(88, (1, 1, n_k, n_q), dtype=dtype)
    keep = np.resize(np.array([1, 1, 0, 1], bool), n_q)
    mask = np.broadcast_to(keep[:, None], (n_q, n_k))
    bias = np.swapaxes(tall, 2, 3)
    assert mask.strides[-1] == 0
    assert not bias.flags.c_contiguous
    got = _check_against_copies(q, k, v, bias=bias, mask=mask)
    assert (as64(got.out)[..., ~keep, :] == 0).all()
    assert (got.lse[..., ~keep] == -np.inf).all()
    copied = qkv.attend(q, k, bias=bias.copy(), mask=mask.copy())
    assert bits(copied @ v) == bits(got.out)
    check(q, k, v, mask=np.ones((n_q, n_k), bool)[::-1, ::-1], bias=bias[..., ::-1])


def _at_odd_address(x):
    """The same numbers, starting one byte behind an aligned address."""
    room = np.empty(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    room[...] = x
    assert not room.flags.aligned
    return room


# B090: found while writing tests; vector loads are the usual victim
@pytest.mark.parametrize(("n", "dtype"), with_dtypes([6, 130], [1025]), ids=str)
def test_data_may_start_at_an_odd_address(n, dtype):
    arrays = qkv_arrays(90, n, n, heads=1, d_k=5, dtype=dtype)
    assert_same(check(*(_at_odd_address(x) for x in arrays), causal=True), check(*arrays, causal=True))
    bias = _at_odd_address(np.ones((n, n), np.float32))
    check(*arrays, bias=bias)


CALLS = [(4, 4), (6, 6), (2, 6), (4, 4), (1, 9), (6, 2), (130, 1030), (3, 1025)]


def _run(call):
    seed, (n_q, n_k) = call
    q, k, v = qkv_arrays(seed, n_q, n_k, d_k=4)
    a = qkv.attend(q, k, causal=True)
    return bits(a @ v), bits(np.asarray(a)), bits(a.lse())


# B166: ml-explore/mlx#3071
def test_no_call_remembers_another():
    calls = list(enumerate(CALLS))
    for seed, (n_q, n_k) in calls:
        check(*qkv_arrays(seed, n_q, n_k, d_k=4), causal=True)
    forwards = [_run(call) for call in calls]
    assert [_run(call) for call in calls[::-1]] == forwards[::-1]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(_run, calls * 8)) == forwards * 8


# B166, one map used from many threads, one mask used for many sizes
def test_one_map_answers_many_threads_and_one_mask_many_sizes():
    q, k, v = qkv_arrays(166, 130, 1030)
    a = qkv.attend(q, k, causal=True, window=(40, 0))
    alone = bits(a @ v), bits(a.lse()), bits(np.asarray(a[0, 1]))
    with ThreadPoolExecutor(8) as pool:
        together = pool.map(lambda _: (bits(a @ v), bits(a.lse()), bits(np.asarray(a[0, 1]))), range(16))
    assert set(together) == {alone}
    band = qkv.masks.causal() & qkv.masks.window(2, None)
    for n_q, n_k in CALLS:
        arrays = qkv_arrays(n_q, n_q, n_k)
        check(*arrays, visible=visible_cells(map_shape(*arrays[:2]), causal=True, window=(2, None)), mask=band)


# B167: found while writing tests
@pytest.mark.parametrize("writeable", [True, False])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n", [3, 130])
def test_nothing_of_the_callers_is_written(n, dtype, writeable):
    q, k, v = qkv_arrays(167, n, n, heads=1, d_k=4, dtype=dtype)
    v[0, 0, n - 1] = np.nan  # what must be cleaned of NaN is cleaned in a copy
    mask = np.tril(np.ones((n, n), bool))
    bias = np.random.default_rng(167).standard_normal((n, n)).astype(dtype)
    lengths = np.array([n - 1])
    sinks = np.ones(1, np.float32)
    inputs = [q, k, v, mask, bias, lengths, sinks]
    before = [bits(x) for x in inputs]
    for x in inputs:
        x.flags.writeable = writeable
    check(q, k, v, mask=mask, bias=bias, lengths=lengths, sinks=sinks, scale=2.0, softcap=5.0)
    a = qkv.attend(q, k, mask=mask, bias=bias, lengths=lengths, sinks=sinks, scale=2.0, softcap=5.0)
    for result in (a.T @ q, a.received(), a.entropy(), *a.top(2), a.scores("biased"), a[..., 0, :]):
        assert not any(np.shares_memory(np.asarray(result), x) for x in inputs)
    assert [bits(x) for x in inputs] == before


# torch: bfloat16 has no NumPy dtype of its own, so both spellings must agree, as far as two libraries' sums do
@pytest.mark.parametrize(("n_q", "n_k"), [(3, 5), (129, 1025)])
def test_torch_bfloat16_goes_in_and_comes_out(n_q, n_k):
    torch = pytest.importorskip("torch", reason="torch is optional for users of qkv")
    arrays = qkv_arrays(168, n_q, n_k, dtype=BFLOAT16)
    q, k, v = (torch.from_numpy(as64(x)).to(torch.bfloat16) for x in arrays)
    a = qkv.attend(q, k, causal=True)
    out, lse = a @ v, a.lse()
    assert isinstance(out, torch.Tensor)
    assert isinstance(lse, torch.Tensor)
    assert (out.dtype, lse.dtype) == (torch.bfloat16, torch.float32)
    visible = visible_cells(map_shape(*arrays[:2]), causal=True)
    exact, naive = exact_and_naive(*arrays, visible=visible)
    assert_close_to_definition(out, exact.out, naive.out, BFLOAT16)
    assert_close_to_definition(lse, exact.lse, naive.lse, np.float32)
    assert_same(as64(out).astype(BFLOAT16), check(*arrays, causal=True).out)


# torch: strides and dtypes of its own
@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_torch_views_are_read_where_they_lie(name):
    torch = pytest.importorskip("torch", reason="torch is optional for users of qkv")
    q, k, v = (x.transpose(0, 2, 1, 3) for x in normal(169, *[(2, 6, 2, 8)] * 3, dtype=name))
    want = check(q, k, v, causal=True)
    got = qkv.attention(*(torch.from_numpy(x.copy()) for x in (q, k, v)), causal=True)
    permuted = [torch.from_numpy(x.transpose(0, 2, 1, 3).copy()).permute(0, 2, 1, 3) for x in (q, k, v)]
    assert isinstance(got, torch.Tensor)
    assert str(got.dtype) == f"torch.{name}"
    assert_same(got.numpy(), want.out)
    assert_same(qkv.attention(*permuted, causal=True).numpy(), want.out)
