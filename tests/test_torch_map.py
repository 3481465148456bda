"""A recorded map: what torch does with its weights it does with the map, and nothing that happens later changes it."""

from __future__ import annotations

import copy
import gc
import math
import operator
import pickle
import weakref

import numpy as np
import pytest
import torch

import qkv
from qkv import masks, measures
from qkv.torch import TensorMap, join, record

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def tensors(n_q, n_k, heads=4, kv_heads=2, width=8, batch=2, dtype=torch.float32, seed=0):
    random = torch.Generator().manual_seed(seed)
    shapes = (batch, heads, n_q, width), (batch, kv_heads, n_k, width), (batch, kv_heads, n_k, 5)
    return [torch.randn(shape, generator=random).to(dtype) for shape in shapes]


@pytest.fixture
def A():
    q, k, _ = tensors(9, 9)
    return record(q, k, causal=True)


CALLS = {
    "stack": lambda A: torch.stack([A, A]),
    "cat": lambda A: torch.cat((A, A), dim=2),
    "mean over heads": lambda A: A.mean(1),
    "mean by name": lambda A: torch.mean(A, dim=1),
    "sum": lambda A: A.sum(dim=-1),
    "largest": lambda A: A.max(dim=-1).values,
    "topk": lambda A: torch.topk(A, 3).values,
    "transposed": lambda A: A.transpose(-1, -2),
    "permuted": lambda A: A.permute(0, 2, 3, 1),
    "reshaped": lambda A: A.reshape(8, 9, 9),
    "squeezed": lambda A: A[:1].squeeze(0),
    "a slice": lambda A: A[0, :, -1, 1:],
    "a head": lambda A: A[:, 2][:, -1],
    "a mask": lambda A: A[A > 0.2],
    "tensor index": lambda A: A[:, torch.tensor([0, 3]), 4],
    "scaled": lambda A: 2 * A / 3 - A**2,
    "negated": lambda A: -A + (1 - A),
    "compared": lambda A: (A >= 0.1) & (A != 1),
    "einsum": lambda A: torch.einsum("bhij->bij", A),
    "times a tensor": lambda A: torch.ones(9) * A,
    "a tensor minus": lambda A: torch.ones(9, 9).sub(A),
    "added in place to a tensor": lambda A: torch.ones(2, 4, 9, 9).add_(A),
    "written into a tensor": lambda A: torch.zeros(2, 4, 9, 9).copy_(A),
    "interpolated": lambda A: torch.nn.functional.interpolate(A, scale_factor=2),
    "where": lambda A: torch.where(A > 0.5, A, 0.0),
    "rollout": lambda A: torch.matmul(A.mean(1), A.mean(1) + torch.eye(9)),
    "bits": lambda A: A.half(),
    "list": lambda A: torch.tensor(A[0].tolist()),
    "numpy": lambda A: torch.from_numpy(A.detach().cpu().numpy()),
    "by name": lambda A: torch.add(input=A, other=A),
}


@pytest.mark.parametrize("call", CALLS)
def test_torch_does_with_a_map_what_it_does_with_its_weights(call, A):
    got, wanted = CALLS[call](A), CALLS[call](A.dense())
    assert type(got) is torch.Tensor and got.dtype == wanted.dtype
    assert torch.equal(got, wanted)


def test_comparisons_and_closeness_take_a_map_for_its_weights(A):
    assert torch.allclose(A, A.dense()) and torch.equal(A, A.dense())
    torch.testing.assert_close(A.dense(), A[..., :, :])
    assert bool((A.dense() == A).all()) and len({A, A}) == 1


def test_what_a_tensor_says_of_itself_a_map_says_without_its_weights():
    q = torch.zeros(1, 2, 10**6, 1)
    A = record(q, q, causal=True)
    assert A.size() == (1, 2, 10**6, 10**6) and A.size(-1) == 10**6 and A.size == A.numel() == 2 * 10**12
    assert A.dim() == A.ndim == 4 and A.device == torch.device("cpu") and A.dtype == torch.float32
    assert not A.requires_grad
    for same in (A.detach(), A.cpu(), A.to("cpu"), A.to(torch.float32), A.to(device="cpu", dtype=torch.float32)):
        assert same is A
    assert isinstance(A[0], TensorMap) and isinstance(A[:, [1, 0]], TensorMap) and len(A[0]) == 2
    assert repr(A).startswith("AttentionMap(shape=(1, 2, 1000000, 1000000), float32, mask=causal()")
    assert repr(A).endswith("detached)") and repr(A[0]).endswith("detached)")


def test_products_stay_lazy():
    n = 17_000  # 1.2 GB of weights
    q, v = torch.zeros(1, 1, n, 1), torch.ones(1, 1, n, 1)
    A = record(q, q, mask=masks.window(3, 0))
    torch.testing.assert_close(torch.matmul(A, v), v)
    torch.testing.assert_close(torch.bmm(A[0], v[0]), v[0])
    torch.testing.assert_close(torch.matmul(v[0, 0, :, 0], A), A.received())


def test_values_may_lack_the_leading_axes(A):
    v = torch.randn(9, 3)
    torch.testing.assert_close(A @ v, A.dense() @ v)
    torch.testing.assert_close(A @ A, A.dense() @ A.dense())
    torch.testing.assert_close(v.T @ A, v.T @ A.dense())
    torch.testing.assert_close(A[0, 0] @ torch.ones(2, 9, 3), A[0, 0].dense() @ torch.ones(2, 9, 3))


def test_more_than_a_gibibyte_is_refused_whatever_asks_for_it():
    q = torch.zeros(1, 2, 10_000, 1)  # 0.8 GB of weights
    A = record(q, q)
    large = record(torch.zeros(1, 1, 20_000, 1), torch.zeros(1, 1, 20_000, 1))
    for call in (lambda: torch.stack([A, A]), lambda: large.mean(1), lambda: large * 2, lambda: torch.add(A, A)):
        with pytest.raises(qkv.DenseError, match=r"would take 1,600,000,000 bytes.*index the maps first"):
            call()
    for call in (lambda: large[..., :, :], lambda: np.asarray(large), lambda: large.to(torch.float16)):
        with pytest.raises(qkv.DenseError):
            call()


@pytest.mark.parametrize(
    "write", [
        lambda A: A.mul_(2), torch.relu_, lambda A: A.requires_grad_(), lambda A: A.zero_(),
        lambda A: torch.add(torch.ones(9), 1, out=A), lambda A: A.copy_(torch.ones(9)),
    ],
)  # fmt: skip
def test_nothing_writes_into_a_map(write, A):
    with pytest.raises(qkv.ArgumentError, match=r"would write into a map.*call it on A\.dense\(\)"):
        write(A)
    with pytest.raises(TypeError, match="does not support item assignment"):
        A[0] = 1


def test_what_neither_a_map_nor_a_tensor_has_is_an_attribute_error(A):
    assert not hasattr(A, "attention_span") and not hasattr(A, "_version")
    with pytest.raises(AttributeError, match="'attention_span', and neither has a tensor"):
        A.attention_span  # noqa: B018 (the access is what is tested)


SETTINGS = {
    "plain": {},
    "all": {
        "mask": masks.causal() & masks.lengths([5, 1030]),
        "softcap": 3.0,
        "sinks": torch.tensor([0.5, -1.0, 2.0, 0.0]),
        "scale": 0.7,
    },
    "bias": {"bias": torch.linspace(-2, 2, 1030)},
}


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("n_q", [1, 3])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_kept_scores_give_every_bit_that_q_and_k_give(dtype, n_q, settings, monkeypatch):
    q, k, v = tensors(n_q, 1030, width=64, dtype=dtype)
    in_a_kernel = qkv.attention(q, k, v, **SETTINGS[settings])
    monkeypatch.setenv("QKV_KERNEL", "walk")  # kept scores are the walk's; a kernel's A @ v differs by rounding
    wanted, got = qkv.attend(q, k, **SETTINGS[settings]), record(q, k, **SETTINGS[settings])
    assert got._problem.q.shape[-1] != 64  # scores, not q
    assert got.shape == wanted.shape and got.dtype == wanted.dtype
    for read in (
        lambda A: A.dense(), lambda A: A @ v, lambda A: A[1, 2, -1, 5:9], lambda A: A.lse(), lambda A: A.entropy(),
        lambda A: A.max_logit().value, lambda A: A.top(3).key, lambda A: A.image(2, 8), lambda A: A.received(),
        lambda A: A.scores("raw").dense(), lambda A: A.scores("capped").dense(), lambda A: A.scores("biased").dense(),
    ):  # fmt: skip
        assert torch.equal(torch.nan_to_num(read(got)), torch.nan_to_num(read(wanted)))
    torch.testing.assert_close(got @ v, in_a_kernel)
    one, other = got.explain(0, 1, 0, 3), wanted.explain(0, 1, 0, 3)
    assert one.weight == other.weight and one.scale == other.scale
    assert one.dot == pytest.approx(other.dot, rel=1e-2 if dtype.itemsize == 2 else 1e-4)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n_q", [1, 200])
def test_a_record_does_not_change_when_q_and_k_do(n_q, dtype):
    q, k, _ = tensors(n_q, 200, width=16, dtype=dtype)
    A = record(q, k)
    before = A.dense()
    q.zero_(), k.zero_()
    assert torch.equal(A.dense(), before) and (A._problem.q.shape[-1] != 16) == (n_q == 1)


def test_scores_that_the_dtype_cannot_hold_are_not_kept():
    q, k, _ = tensors(1, 50, width=64, dtype=torch.float16)
    q, k = q * 200, k * 200  # scores beyond float16
    assert torch.equal(record(q, k).dense(), qkv.attend(q, k).dense()) and record(q, k)._problem.q.shape[-1] == 64
    k[..., 3, :] = math.nan
    seen = torch.arange(50) != 3
    assert torch.equal(record(q, k, mask=seen).dense(), qkv.attend(q, k, mask=seen).dense())


def test_a_record_hangs_on_no_graph_and_keeps_no_input():
    q, k, _ = tensors(9, 9)
    inner = q.requires_grad_() * 2
    A = record(inner, k)
    assert not A.dense().requires_grad and not (A @ k).requires_grad
    alive = weakref.ref(inner)
    del inner
    gc.collect()
    assert alive() is None and A.entropy().isfinite().all()


def test_a_record_is_copied_and_pickled_with_all_it_needs(A):
    for other in (copy.deepcopy(A), pickle.loads(pickle.dumps(A))):  # noqa: S301 (our own bytes)
        assert type(other) is TensorMap and torch.equal(other.dense(), A.dense())


def test_measures_of_a_record_are_tensors(A):
    for value in A.measure(measures.entropy(), measures.lse(), measures.received()):
        assert isinstance(value, torch.Tensor)
    assert isinstance(A.T @ torch.ones(2, 4, 9, 1), torch.Tensor)


def steps(*shapes, heads=2, **how):
    """Maps of these shapes over one sequence, as a cache gives them, and the map of it all."""
    n = shapes[-1][1]
    q, k, _ = tensors(n, n, heads=heads, kv_heads=1)
    starts = np.cumsum([0, *(n_q for n_q, _ in shapes)])
    parts = [
        record(q[:, :, start : start + n_q], k[:, :, :n_k], causal=masks.causal(int(start)), **how)
        for start, (n_q, n_k) in zip(starts, shapes, strict=False)
    ]
    return parts, qkv.attend(q, k, causal=True, **how)


@pytest.mark.parametrize(
    "shapes",
    [[(4, 4), (1, 5), (1, 6)], [(1, 1), (1, 2)], [(4, 6), (1, 6), (1, 6)], [(2, 2), (3, 5)], [(6, 6)]],
    ids=str,
)
@pytest.mark.parametrize("how", [{}, {"sinks": torch.tensor([1.0, -1.0])}, {"softcap": 0.7}], ids=str)
def test_joined_steps_are_the_map_of_the_whole(shapes, how):
    parts, whole = steps(*shapes, **how)
    joined = join(parts)
    assert joined.shape == whole.shape
    torch.testing.assert_close(joined.dense(), whole.dense())
    torch.testing.assert_close(joined.lse(), whole.lse())
    assert not joined.dense().triu(1).any()
    torch.testing.assert_close(join([part[:, 1] for part in parts]).dense(), whole[:, 1].dense())


def test_steps_that_do_not_continue_each_other_are_refused():
    (first, second, third), _ = steps((4, 4), (1, 5), (1, 6))
    with pytest.raises(qkv.ShapeError, match="map 1 sees keys up to 5; expected up to 4"):
        join([first, third])
    with pytest.raises(qkv.ShapeError, match="the last map is whole by itself"):
        join([second, second])
    with pytest.raises(qkv.ShapeError, match="maps of the same heads"):
        join([first, second[:, 0]])
    with pytest.raises(qkv.ShapeError, match="maps of the same heads"):
        join([])
    huge = record(torch.zeros(1, 1, 20_000, 1), torch.zeros(1, 1, 20_000, 1))
    with pytest.raises(qkv.DenseError, match=r"\(3\.0 GiB\); .*join fewer of them"):
        join([huge])


def test_operators_are_those_of_tensors(A):
    for name in "add sub mul truediv pow lt le gt ge eq ne".split():
        act = getattr(operator, name)
        assert torch.equal(act(A, 2), act(A.dense(), 2))
        assert torch.equal(act(torch.ones(9), A), act(torch.ones(9), A.dense()))
    assert torch.equal(3 - A, 3 - A.dense()) and torch.equal(abs(-A), A.dense())
