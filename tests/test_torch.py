"""torch tensors in, torch tensors out; what this version can't do with them is refused by name."""

import copy
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import qkv
from cases.definition import qkv_arrays
from qkv import masks

torch = pytest.importorskip("torch", reason="torch is not installed")


def tensor(x: np.ndarray) -> Any:
    return torch.from_numpy(x.copy())


def test_tensors_may_be_transposed_expanded_or_sliced_views():
    q, k, v = (tensor(x) for x in qkv_arrays(2, 40, 50))
    wanted = qkv.attention(q, k[:, :1].repeat(1, 2, 1, 1), v)
    strange = q.transpose(1, 2).contiguous().transpose(1, 2)
    assert torch.equal(qkv.attention(strange, k[:, :1].expand(1, 2, 50, 8), torch.cat([v, v], -1)[..., :8]), wanted)


def test_masks_biases_and_lengths_may_be_tensors():
    q, k, v = (tensor(x) for x in qkv_arrays(3, 5, 6, batch=2))
    mask, bias = torch.rand(5, 6) < 0.6, torch.randn(2, 5, 6)
    got = qkv.attention(
        q, k, v, mask=mask, bias=bias, lengths=torch.tensor([6, 3]), causal=masks.causal(torch.tensor([1, 2])),
        sinks=torch.zeros(2),
    )  # fmt: skip
    wanted = qkv.attention(
        q.numpy(), k.numpy(), v.numpy(), mask=mask.numpy(), bias=bias.numpy(), lengths=[6, 3],
        causal=masks.causal([1, 2]), sinks=[0, 0],
    )  # fmt: skip
    np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-5, atol=1e-6)


def test_outputs_agree_with_torchs_own_attention():
    q, k, v = (tensor(x) for x in qkv_arrays(4, 131, 1030, dtype=np.float64))
    mask = torch.rand(131, 1030) < 0.5
    wanted = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    torch.testing.assert_close(qkv.attention(q, k, v, mask=mask), wanted)
    causal = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(qkv.attention(q, k, v, causal=masks.causal(offset=0)), causal)


def test_merging_tensors_gives_tensors():
    q, k, v = (tensor(x) for x in qkv_arrays(5, 5, 6))
    parts = [
        (qkv.attend(q, k[..., s, :]) @ v[..., s, :], qkv.attend(q, k[..., s, :]).lse()) for s in (slice(2), slice(2, 6))
    ]
    out, lse = qkv.merge(parts)
    torch.testing.assert_close(out, qkv.attention(q, k, v))
    torch.testing.assert_close(lse, qkv.attend(q, k).lse())


def test_gradients_are_refused_by_name_until_they_are_there():
    q, k, v = (tensor(x) for x in qkv_arrays(6, 5, 6))
    for spoiled, name in [((q.requires_grad_(), k), "q"), ((q.detach(), k.requires_grad_()), "k")]:
        with pytest.raises(qkv.ArgumentError, match=rf"{name} requires grad.*{name}\.detach\(\)"):
            qkv.attend(*spoiled)
    A = qkv.attend(q.detach(), k.detach())
    with pytest.raises(qkv.ArgumentError, match="v requires grad"):
        A @ v.requires_grad_()
    with torch.no_grad():
        out = qkv.attend(q, k) @ v
    assert not out.requires_grad and torch.equal(out, A @ v.detach())


REFUSED = [
    (
        lambda t: qkv.attend(t, t.numpy()),
        qkv.DTypeError,
        "q is a torch array on cpu and k a numpy array on cpu; expected one",
    ),
    (lambda t: qkv.attend(t, t) @ t.numpy(), qkv.DTypeError, "q is a torch array on cpu and v a numpy array"),
    (lambda t: qkv.attend(t.to("meta"), t), qkv.DTypeError, "q is on meta and has no numbers"),
    (lambda t: qkv.attend(t.to_sparse(), t), qkv.DTypeError, "q has layout torch.sparse_coo"),
    (lambda t: qkv.attend(t.cfloat(), t.cfloat()), qkv.DTypeError, "complex64"),
    (lambda t: qkv.attend(t, t.half()), qkv.DTypeError, "float32 and float16"),
]


@pytest.mark.parametrize(("call", "kind", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_cannot_be_computed_is_refused_by_name(call, kind, message):
    with pytest.raises(kind, match=message):
        call(torch.ones(3, 4))


@pytest.mark.parametrize("default", [torch.float32, torch.float64])
def test_integer_tensors_become_torchs_default_float(default):
    before = torch.get_default_dtype()
    torch.set_default_dtype(default)
    try:
        out = qkv.attention(torch.tensor([[1, 0]]), torch.tensor([[1, 0], [0, 1]]), torch.tensor([[2, 0], [0, 2]]))
    finally:
        torch.set_default_dtype(before)
    assert out.dtype == default
    assert [round(x, 5) for x in out[0].tolist()] == [1.33952, 0.66048]


def test_arrays_are_computed_without_importing_torch():
    code = "import sys, numpy as np, qkv; qkv.attention(*[np.ones((2, 3))] * 3); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("n", [5, 300, 2100])
def test_a_notebook_draws_tensors_too(n):
    q = torch.ones(n, 2, dtype=torch.bfloat16)
    assert "<svg" in qkv.attend(q, q, causal=True)._repr_html_()


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_numpy_sees_a_map_of_tensors_in_its_own_dtype(dtype):
    A = qkv.attend(torch.randn(5, 4).to(dtype), torch.randn(6, 4).to(dtype))
    assert np.asarray(A).dtype == A.dense().numpy().dtype
    np.testing.assert_array_equal(np.asarray(A), A.dense().numpy())


def test_a_map_of_tensors_can_be_copied_and_pickled():
    q = torch.randn(5, 4)
    A = qkv.attend(q, q, causal=True)
    for other in (copy.deepcopy(A), pickle.loads(pickle.dumps(A))):  # noqa: S301 (our own)
        assert torch.equal(other @ q, A @ q) and other.lse().dtype == torch.float32


def test_a_tensor_that_keeps_its_sign_as_a_flag_is_read_with_its_sign():
    z = torch.complex(torch.randn(3, 5, 4), torch.randn(3, 5, 4))
    q, k, v = (part.conj().imag for part in z)
    assert q.is_neg()
    torch.testing.assert_close(qkv.attention(q, k, v), qkv.attention(*(x.resolve_neg() for x in (q, k, v))))
    assert torch.equal(qkv.attend(q, k).lse(), qkv.attend(q.resolve_neg(), k.resolve_neg()).lse())
