"""A row's bits don't depend on other rows, on what is asked beside it or hidden, on the batch, or on the strides."""

import numpy as np
import pytest

import qkv
from cases.definition import HIDERS, bits, normal, qkv_arrays
from qkv import measures

pytestmark = pytest.mark.usefixtures("every_kernel")
DTYPES = [np.float16, np.float32, np.float64]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_k", [1, 7, 1023, 1024, 1025, 2300])
def test_a_weight_is_the_same_bits_whatever_was_asked_beside_it(n_k, dtype):
    n_q = 300
    q, k, _ = qkv_arrays(31, n_q, n_k, dtype=dtype)
    A = qkv.attend(q, k, window=(1500, None), sinks=[0.0, 1.0])
    w = A.dense()
    for i in (0, 1, 127, 128, 200, 299):
        assert bits(A[0, 1, i]) == bits(w[0, 1, i])
        assert bits(A[0, 1, i : i + 5, n_k // 2 :]) == bits(w[0, 1, i : i + 5, n_k // 2 :])
        assert A[0, 1, i, n_k - 1] == w[0, 1, i, n_k - 1] == A.explain(0, 1, i, n_k - 1).weight
    assert bits(A[0, [1, 0]].dense()) == bits(w[0, [1, 0]])
    assert bits(A[0, 0].lse()) == bits(A.lse()[0, 0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n_q", "n_k"), [(5, 7), (1, 3000), (131, 1030)])
def test_a_row_does_not_know_its_batch(n_q, n_k, dtype):
    q, k, v = qkv_arrays(32, n_q, n_k, batch=5, heads=4, kv_heads=2, dtype=dtype)
    together = qkv.attend(q, k, causal=True)
    out, entropy = together @ v, together.entropy()
    for b in range(5):
        alone = qkv.attend(q[b : b + 1], k[b : b + 1], causal=True)
        assert bits(alone @ v[b : b + 1]) == bits(out[b : b + 1])
        assert bits(alone.entropy()) == bits(entropy[b : b + 1])
        one = qkv.attend(q[b, 3], k[b, 1], causal=True)
        assert bits(one @ v[b, 1]) == bits(out[b, 3])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("row", [0, 64, 127, 128, 250])
def test_a_row_does_not_know_the_other_queries(row, dtype):
    q, k, v = (x[0, 0] for x in qkv_arrays(33, 260, 2300, heads=1, dtype=dtype))
    A = qkv.attend(q, k, mask=np.random.default_rng(0).random((260, 2300)) < 0.7)
    other = normal(34, q.shape, dtype=dtype)[0] * 50
    other[row] = q[row]
    mask = np.random.default_rng(1).random((260, 2300)) < 0.1
    mask[row] = np.random.default_rng(0).random((260, 2300))[row] < 0.7
    B = qkv.attend(other, k, mask=mask)
    assert bits((A @ v)[row]) == bits((B @ v)[row])
    assert bits(A[row]) == bits(B[row])
    for value in (measures.lse(), measures.entropy(), measures.local(9)):
        assert bits(A.measure(value)[0][row]) == bits(B.measure(value)[0][row])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(60))
def test_a_row_does_not_know_which_rows_are_asked_with_it(seed, dtype):
    """Tiles that a row does not see leave no trace in it: which of them it meets depends on the rows beside it."""
    rng = np.random.default_rng(seed)
    n_q, n_k = rng.integers(40, 200, 2)
    q, k, _ = (2 * x[0, 0] for x in qkv_arrays(seed, int(n_q), int(n_k), heads=1, d_k=16, dtype=dtype))
    A = qkv.attend(q, k, **({"causal": True} if seed % 2 else {"window": (int(rng.integers(20, 120)), 3)}))
    whole = A.dense()
    for a, z in np.sort(rng.integers(0, n_q + 1, (8, 2)), axis=-1):
        assert bits(A[a:z, :]) == bits(whole[a:z])


@pytest.mark.parametrize("d_k", [8, 64])
@pytest.mark.parametrize("hider", HIDERS)
@pytest.mark.parametrize("garbage", [np.nan, np.inf, -np.inf, 3e38, 0.0])
def test_what_is_hidden_changes_not_one_bit(hider, garbage, d_k):
    q, k, v = qkv_arrays(35, 131, 1030, batch=2, heads=2, d_k=d_k)
    arguments, visible = HIDERS[hider]((2, 2, 131, 1030))
    A = qkv.attend(q, k, **arguments)
    spoiled_k, spoiled_v = k.copy(), v.copy()
    unseen = ~visible.any(-2)
    spoiled_k[unseen] = garbage
    spoiled_v[unseen] = garbage
    B = qkv.attend(q, spoiled_k, **arguments)
    assert bits(A @ v) == bits(B @ spoiled_v)
    assert bits(A.dense()) == bits(B.dense())
    assert bits(A.received()) == bits(B.received())
    seen = A.measure(measures.entropy(), measures.top(3), measures.max_logit(), measures.image(9))
    spoiled = B.measure(measures.entropy(), measures.top(3), measures.max_logit(), measures.image(9))
    for results in zip(seen, spoiled, strict=True):
        one, other = (x if isinstance(x, tuple) else (x,) for x in results)
        assert [bits(x) for x in one] == [bits(x) for x in other]


def test_the_future_changes_not_one_bit_of_the_past():
    q, k, v = qkv_arrays(36, 1200, 1200)
    A = qkv.attend(q, k, causal=True)
    q2, k2, v2 = (x.copy() for x in (q, k, v))
    for x in (q2, k2, v2):
        x[..., 700:, :] = np.nan
    B = qkv.attend(q2, k2, causal=True)
    assert bits((A @ v)[..., :700, :]) == bits((B @ v2)[..., :700, :])
    assert bits(A.entropy()[..., :700]) == bits(B.entropy()[..., :700])


@pytest.mark.parametrize("where", ["v", "x"])
def test_a_nan_in_a_row_of_values_reaches_those_that_see_it_and_no_one_else(where):
    q, k, v = qkv_arrays(37, 131, 1030)
    A = qkv.attend(q, k, causal=True)
    if where == "v":
        clean, spoiled = A @ v, v.copy()
        spoiled[0, 1, 950] = [np.nan, np.inf, -np.inf, 1, 1, 1, 1, 1]
        out = A @ spoiled
        sees = np.arange(131) + 899 >= 950
    else:
        x = normal(38, (1, 2, 131, 8))[0]
        clean, spoiled = A.T @ x, x.copy()
        spoiled[0, 1, 51] = [np.nan, np.inf, -np.inf, 1, 1, 1, 1, 1]
        out = A.T @ spoiled
        sees = np.arange(1030) <= 51 + 899
    assert np.isnan(out[0, 1, sees, 0]).all() and np.isinf(out[0, 1, sees, 1:3]).all()
    assert bits(out[0, 1, ~sees]) == bits(clean[0, 1, ~sees]) and bits(out[0, 0]) == bits(clean[0, 0])
    assert np.isfinite(out[0, 1, :, 3:]).all()


def test_scores_that_overflow_show_in_their_row_alone():
    q, k, v = (x[0, 0] for x in qkv_arrays(39, 131, 1030, heads=1))
    clean = qkv.attend(q, k) @ v
    q[7], k[:, 0] = 3e38, np.abs(k[:, 0]) + 10
    clean = np.delete(qkv.attend(q, k) @ v, 7, axis=0)
    out = qkv.attend(q, k) @ v
    assert not np.isfinite(out[7]).any() and bits(np.delete(out, 7, axis=0)) == bits(clean)


@pytest.mark.parametrize("sink", [None, [0.0]])
def test_a_row_that_sees_only_minus_infinity_has_no_softmax_unless_a_sink_takes_it(sink):
    q, k = np.array([[1.0, 0.0], [0.0, 1.0]])[None], np.array([[-np.inf, 1.0]] * 3)[None]
    with np.errstate(all="raise"):
        w = qkv.attend(q, k, scale=1, sinks=sink).dense()
    assert np.isnan(w[0, 0]).all() if sink is None else (w[0, 0] == 0).all()


@pytest.mark.parametrize(
    "view", ["strided", "reversed", "transposed", "expanded", "big endian", "unaligned", "Fortran"]
)
def test_strides_and_byte_order_change_not_one_bit(view):
    q, k, v = (x[0] for x in qkv_arrays(40, 131, 1030))
    if view == "expanded":
        k, v = (np.broadcast_to(x[:1], x.shape) for x in (k, v))
    wanted = bits(qkv.attend(q.copy(), k.copy(), causal=True) @ v.copy())
    seen = [_view(x, view) for x in (q, k, v)]
    for x in seen:
        x.flags.writeable = False
    assert bits(qkv.attend(seen[0], seen[1], causal=True) @ seen[2]) == wanted


def _view(x: np.ndarray, how: str) -> np.ndarray:
    if how == "strided":
        return np.repeat(x, 2, axis=-1)[..., ::2]
    if how == "reversed":
        return np.ascontiguousarray(x[..., ::-1, ::-1])[..., ::-1, ::-1]
    if how == "transposed":
        return np.ascontiguousarray(x.swapaxes(0, 1)).swapaxes(0, 1)
    if how == "big endian":
        return x.astype(x.dtype.newbyteorder(">"))
    if how == "unaligned":
        raw = np.empty(x.nbytes + 1, np.uint8)
        raw[1:] = np.frombuffer(x.tobytes(), np.uint8)
        return raw[1:].view(x.dtype).reshape(x.shape)
    return np.asfortranarray(x) if how == "Fortran" else x


def test_nothing_of_the_callers_is_written():
    q, k, v = qkv_arrays(41, 131, 1030)
    mask, bias = np.random.default_rng(0).random((131, 1030)) < 0.5, normal(1, (131, 1030))[0]
    sinks = np.zeros(2, np.float32)
    everything = [q, k, v, mask, bias, sinks]
    before = [bits(x) for x in everything]
    for x in everything:
        x.flags.writeable = False
    A = qkv.attend(q, k, mask=mask, bias=bias, sinks=sinks, softcap=3.0)
    A @ v, A.T @ (A @ v), A.dense(), A.measure(measures.top(3), measures.image(4), measures.entropy())
    assert [bits(x) for x in everything] == before


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_how_large_a_hidden_value_is_changes_not_one_bit_of_small_ones(dtype):
    q, k, v = (x[0, 0] for x in qkv_arrays(42, 131, 1030, heads=1, dtype=dtype))
    v *= np.finfo(dtype).tiny * 8
    spoiled = v.copy()
    spoiled[1000:] = np.finfo(dtype).max
    assert bits(qkv.attend(q, k, lengths=1000) @ v) == bits(qkv.attend(q, k, lengths=1000) @ spoiled)
