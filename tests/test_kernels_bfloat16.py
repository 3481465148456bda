"""bfloat16 that the CPU multiplies as it is: what the instruction rounds, flushes to 0 or pairs up does not show."""

from typing import Any

import numpy as np
import pytest

import qkv
import running
from cases.definition import (
    BFLOAT16,
    HIDERS,
    as64,
    assert_close_to_definition,
    bits,
    exact_and_naive,
    normal,
    qkv_arrays,
    visible_cells,
)  # fmt: skip
from qkv import _kernel, masks

pytestmark = [running.needs_kernel, pytest.mark.usefixtures("compiled")]
GARBAGE = [np.nan, np.inf, 3e38, 1e-39, -1e-35, 0.0]


def arrays(seed: int, n_q: int, n_k: int, **sizes: Any) -> list[np.ndarray]:
    return qkv_arrays(seed, n_q, n_k, dtype=BFLOAT16, **sizes)


def assert_right(q: Any, k: Any, v: Any, **how: Any) -> Any:
    exact, naive = exact_and_naive(q, k, v, visible=visible_cells((*q.shape[:-1], k.shape[-2]), **how))
    out = qkv.attention(q, k, v, **how)
    assert_close_to_definition(out, exact.out, naive.out, BFLOAT16)
    return out


@pytest.mark.parametrize("keys", [(0, 1), (1, 2), (62, 63), (63, 64), (64, 65), (128, 129)])
def test_a_row_that_sees_one_key_is_its_value_to_the_last_bit(keys, compiled):
    q, k, v = arrays(1, 70, 129)
    first, last = keys
    seen = (np.arange(129) >= first) & (np.arange(129) < last)
    assert bits(qkv.attention(q * 9, k, v, mask=seen)) == bits(
        np.broadcast_to(v[..., first : first + 1, :], (1, 2, 70, 8))
    )
    window = masks.window(0, 0, offset=first)
    assert bits(qkv.attention(q * 9, k, v, mask=window)[..., :1, :]) == bits(v[..., first : first + 1, :])


@pytest.mark.parametrize("garbage", GARBAGE)
@pytest.mark.parametrize("hider", HIDERS)
def test_what_is_hidden_changes_not_one_bit(hider, garbage, compiled):
    q, k, v = arrays(2, 51, 331, batch=2)
    how, visible = HIDERS[hider]((2, 2, 51, 331))
    spoiled_k, spoiled_v = k.copy(), v.copy()
    spoiled_k[~visible.any(-2)] = garbage
    spoiled_v[~visible.any(-2)] = garbage
    assert bits(qkv.attention(q, k, v, **how)) == bits(qkv.attention(q, spoiled_k, spoiled_v, **how))


@pytest.mark.parametrize("garbage", GARBAGE)
@pytest.mark.parametrize(("first", "last"), [(1, 70), (3, 69), (5, 6), (63, 67), (65, 99)])
def test_the_other_half_of_a_pair_of_keys_is_not_seen(first, last, garbage, compiled):
    q, k, v = arrays(3, 20, 99)
    seen = (np.arange(99) >= first) & (np.arange(99) < last)
    ids = {"mask": masks.segments(np.ones(20, int), np.where(seen, 1, np.where(np.arange(99) < first, 0, 2)))}
    spoiled = v.copy()
    spoiled[..., ~seen, :] = garbage
    out = qkv.attention(q, k, spoiled, **ids)
    assert bits(out) == bits(qkv.attention(q, k, v, **ids))
    assert_close_to_definition(
        out, as64(qkv.attention(*map(as64, (q, k[..., seen, :], v[..., seen, :])))), [], BFLOAT16
    )


@pytest.mark.parametrize("size", [1e-39, 3e-38, 1e-36, 1e-31, 1e-29, 1e30])
@pytest.mark.parametrize("causal", [None, True])
def test_values_of_any_size_are_averaged(size, causal, compiled):
    q, k, v = (as64(x) for x in arrays(4, 50, 70))
    q, k, v = (x.astype(BFLOAT16) for x in (q, k, v * size))
    assert_right(q, k, v, causal=causal)
    v[..., ::3, :] = np.float32(2.5)
    assert_right(q, k, v, causal=causal)


@pytest.mark.parametrize("power", [-100, -50, 50, 100])
def test_scores_do_not_depend_on_where_the_scale_is(power, compiled):
    q, k, v = arrays(5, 50, 70)
    small = (as64(q) * 2.0**-power).astype(BFLOAT16)
    out = qkv.attention(small, k, v, scale=2.0 ** (power / 2) / 3, temperature=2.0 ** -(power / 2))
    exact, naive = exact_and_naive(q, k, v, scale=1 / 3)
    assert_close_to_definition(out, exact.out, naive.out, BFLOAT16)


@pytest.mark.parametrize("n_k", [1, 2, 63, 64, 65, 200])
@pytest.mark.parametrize("d", [1, 2, 7, 33, 64])
def test_lse_and_entropy_are_of_exact_weights(d, n_k, compiled):
    q, k, v = arrays(6, 40, n_k, d_k=d, d_v=d)
    A = qkv.attend(q, k, causal=masks.causal(offset=5))
    problem = A._problem
    out, lse, entropy = _kernel.run(problem, _kernel.form(problem), A._lead, v, ("lse", "entropy"))
    with np.errstate(over="ignore"):
        assert bits(out.reshape((*A.shape[:-1], d)).astype(BFLOAT16)) == bits(A @ v)
    assert bits(A.lse()) == bits(lse) and bits(A.entropy()) == bits(entropy)
    with running.kernel("walk"):
        np.testing.assert_allclose(lse.reshape(A.shape[:-1]), A.lse(), rtol=3e-6, atol=3e-6)
        np.testing.assert_allclose(entropy.reshape(A.shape[:-1]), A.entropy(), rtol=3e-6, atol=1.2e-5)


@pytest.mark.parametrize("where", ["q", "k", "v"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, "largest"])
def test_what_is_not_finite_shows_where_it_does_in_the_walk(value, where, compiled):
    given = dict(zip("qkv", arrays(7, 50, 70), strict=True))
    given[where][0, 0, 40, 1:3] = 3.38e38 if value == "largest" else value
    hows: list[dict[str, Any]] = [
        {},
        {"causal": True},
        {"mask": np.arange(70) != 40},
        {"softcap": 2.0, "sinks": [0.0, 1.0]},
    ]
    for how in hows:
        got = as64(qkv.attention(**given, **how))
        with running.kernel("walk"):
            wanted = as64(qkv.attention(**given, **how))
        finite = np.isfinite(wanted)
        np.testing.assert_array_equal(got[~finite], wanted[~finite])
        np.testing.assert_allclose(got[finite], wanted[finite], rtol=2**-6, atol=2**-6)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("n", "d", "mean"), [(300, 64, 0), (300, 64, 3), (70, 40, 0)])
def test_the_error_is_at_most_little_more_than_that_of_torch(n, d, mean, causal, compiled):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    attention = torch.nn.functional.scaled_dot_product_attention
    q, k, v = (torch.from_numpy(x) for x in normal(8, *[(1, 4, n, d)] * 3))
    q, k, v = q.bfloat16(), k.bfloat16(), (v + mean).bfloat16()
    exact = attention(q.double(), k.double(), v.double(), is_causal=causal)
    ours, theirs = (
        (out.double() - exact).pow(2).mean().sqrt().item()
        for out in (qkv.attention(q, k, v, causal=causal or None), attention(q, k, v, is_causal=causal))
    )
    assert ours <= 1.2 * theirs


@pytest.mark.parametrize("d", [32, 64, 128])
@pytest.mark.parametrize("hider", [None, "bool mask", "-inf bias"])
def test_a_row_has_the_same_bits_in_whatever_block_it_is_computed(d, hider, compiled):
    q, k, v = arrays(9, 130, 400, heads=1, d_k=d, d_v=d)
    k[..., ::7, :] *= 3  # peaks rise on the way
    how: dict[str, Any] = HIDERS[hider]((1, 1, 130, 400))[0] if hider else {}
    full = qkv.attention(q, k, v, **how)
    for start, stop in ((0, 9), (3, 20), (40, 88), (16, 130)):
        part = {name: x[..., start:stop, :] for name, x in how.items()}
        assert bits(qkv.attention(q[..., start:stop, :], k, v, **part)) == bits(full[..., start:stop, :])
    A = qkv.attend(q, k, **how)
    out, *_ = _kernel.run(A._problem, _kernel.form(A._problem), A._lead, v, ("entropy", "max_key"))
    assert bits(out.astype(BFLOAT16).reshape(full.shape)) == bits(full)
