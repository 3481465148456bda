"""Every argument of attend is checked once, at the door: the error names it, what was expected, what came, a way."""

import numpy as np
import pytest

import qkv
from qkv import masks

Q, K = np.ones((2, 4, 5, 8)), np.ones((2, 2, 7, 8))

REFUSED = [
    ({"scale": "big"}, TypeError, "scale is 'big'; expected one real number"),
    ({"scale": np.nan}, ValueError, "scale is nan"),
    ({"scale": np.ones(3)}, TypeError, "scale"),
    ({"temperature": 0}, ValueError, r"temperature is 0; expected a number from 1e-18 to 1e\+18"),
    ({"temperature": -1.0}, ValueError, "temperature is -1"),
    ({"temperature": True}, TypeError, "temperature is True"),
    ({"softcap": 0.0}, ValueError, "softcap is 0; expected a number from 1e-18.*or None"),
    ({"softcap": np.inf}, ValueError, "softcap is inf"),
    ({"causal": 1}, TypeError, r"causal is 1; expected True.*masks.causal\(offset"),
    ({"causal": "br"}, TypeError, "causal is 'br'"),
    ({"causal": np.tril(np.ones((5, 7), bool))}, TypeError, "causal"),
    ({"window": 3}, ValueError, r"window is 3; expected \(left, right\)"),
    ({"window": (1, 2, 3)}, ValueError, "window"),
    ({"window": (-1, 0)}, ValueError, "left of window is -1"),
    ({"mask": np.zeros((5, 7))}, TypeError, "mask has dtype float64.*bias="),
    ({"bias": np.ones((5, 7), bool)}, TypeError, "bias has dtype bool.*mask="),
    ({"bias": masks.causal()}, TypeError, r"bias is the mask causal\(\).*mask="),
    ({"sinks": [1.0, 2.0]}, ValueError, r"sinks have shape \(2,\); expected \(n_heads,\) = \(4,\)"),
    ({"scale": 1e300}, ValueError, r"scale is 1e\+300; expected a number within ±1e\+18"),
    ({"temperature": 1e-40}, ValueError, "temperature is 1e-40"),
    ({"softcap": 1e39}, ValueError, "softcap is 1e"),
    ({"sinks": [np.inf, 0, 0, 0]}, ValueError, "sinks are .*inf"),
    ({"sinks": [1e300, 0, 0, 0]}, ValueError, "sinks are"),
    ({"sinks": True}, TypeError, "sinks have dtype bool"),
    ({"lengths": [7, 8]}, ValueError, "n_k = 7"),
    ({"lengths": [0.5, 1]}, TypeError, "expected integers"),
    ({"empty": "nan"}, ValueError, "empty is 'nan'"),
    ({"score": np.dot}, TypeError, "score"),
]


@pytest.mark.parametrize(("arguments", "kind", "message"), REFUSED, ids=range(len(REFUSED)))
def test_an_argument_that_means_nothing_is_named(arguments, kind, message):
    with pytest.raises(kind, match=message) as refusal:
        qkv.attend(Q, K, **arguments)
    assert isinstance(refusal.value, qkv.QKVError) and "\n" not in str(refusal.value)


SHAPES = [
    ((5, 8), (7, 8), None, ""),
    ((5,), (7, 8), ValueError, r"q has shape \(5,\)"),
    ((5, 8), (1, 7, 8), ValueError, "same number of axes"),
    ((5, 8), (7, 9), ValueError, "k has width 9 but q has width 8.*did you pass v as k"),
    ((4, 5, 8), (3, 7, 8), ValueError, "q has 4 heads and k has 3.*multiple"),
    ((2, 5, 8), (4, 7, 8), ValueError, "q has 2 heads and k has 4"),
    ((4, 5, 8), (0, 7, 8), ValueError, "q has 4 heads and k has 0"),
    ((3, 4, 5, 8), (2, 4, 7, 8), ValueError, r"batch axes \(3,\) and \(2,\)"),
    ((3, 4, 5, 8), (1, 2, 7, 8), None, ""),
]


@pytest.mark.parametrize(("q", "k", "kind", "message"), SHAPES, ids=range(len(SHAPES)))
def test_shapes_fit_or_are_named(q, k, kind, message):
    if kind is None:
        assert qkv.attend(np.ones(q), np.ones(k)).shape == (*q[:-1], k[-2])
        return
    with pytest.raises(qkv.ShapeError, match=message):
        qkv.attend(np.ones(q), np.ones(k))


DTYPES = [
    (np.float32, np.float64, "q and k have dtypes float32 and float64"),
    (np.float16, np.float32, "float16 and float32"),
    (np.complex64, np.complex64, "q has dtype complex64"),
    (np.float64, np.complex128, "k has dtype complex128"),
    (np.longdouble, np.longdouble, "q has dtype"),
    (object, float, "q has dtype object"),
    ("U3", float, "q has dtype"),
    ("M8[s]", float, "q has dtype"),
]


@pytest.mark.parametrize(("q", "k", "message"), DTYPES, ids=range(len(DTYPES)))
def test_a_dtype_that_is_not_one_of_the_four_is_named(q, k, message):
    with pytest.raises(qkv.DTypeError, match=message):
        qkv.attend(np.ones((2, 2)).astype(q), np.ones((2, 2)).astype(k))


def test_ragged_lists_and_masked_arrays_are_refused():
    with pytest.raises(qkv.ArgumentError, match="q is not an array"):
        qkv.attend([[1.0, 2.0], [3.0]], np.ones((2, 2)))
    with pytest.raises(qkv.DTypeError, match=r"q is a numpy masked array.*mask="):
        qkv.attend(np.ma.masked_array(np.ones((2, 2)), [[0, 1], [0, 0]]), np.ones((2, 2)))


@pytest.mark.parametrize("make", [list, np.array, lambda x: np.array(x, np.int8), lambda x: np.array(x) > 0])
def test_lists_integers_and_bools_become_float64(make):
    A = qkv.attend(make([[1, 0]]), make([[1, 0], [0, 1]]))
    assert A.dtype == np.float64
    np.testing.assert_allclose(A @ [[2, 0], [0, 2]], [[1.339523, 0.660477]], atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "who"),
    [
        ({"lengths": [3, 0]}, r"query 0 of head \(1, 0\)"),
        ({"causal": masks.causal(offset=-2)}, r"query 0 of head \(0, 0\)"),
        ({"bias": np.where(np.arange(5)[:, None] == 4, -np.inf, np.zeros((5, 7)))}, r"query 4 of head \(0, 0\)"),
        ({"mask": np.arange(5)[:, None] != 3, "sinks": 1.0}, "query 3"),
    ],
    ids=range(4),
)
def test_an_empty_row_raises_for_those_who_want_to_know(arguments, who):
    with pytest.raises(qkv.EmptyRowError, match=f'{who}.*may see no key.*empty="zero"'):
        qkv.attend(Q, K, empty="raise", **arguments)
    assert (qkv.attend(Q, K, **arguments).dense() >= 0).all()


def test_a_full_map_does_not_raise_for_empty_rows():
    assert qkv.attend(Q, K, causal=True, empty="raise").shape == (2, 4, 5, 7)
    assert qkv.attend(np.ones((5, 8)), np.ones((7, 8)), mask=np.eye(5, 7, dtype=bool), empty="raise").shape == (5, 7)
    with pytest.raises(qkv.EmptyRowError, match="query 0 may see"):
        qkv.attend(np.ones((5, 8)), np.ones((0, 8)), empty="raise")


@pytest.mark.parametrize("flag", [np.True_, True])
def test_causal_may_be_any_true(flag):
    np.testing.assert_array_equal(qkv.attend(Q, K, causal=flag)[0, 0, 0], qkv.attend(Q, K, causal=True)[0, 0, 0])


def test_a_sink_of_minus_infinity_is_no_sink():
    sinks = [-np.inf, 0.0, -np.inf, -np.inf]
    A = qkv.attend(Q, K, sinks=sinks)
    np.testing.assert_array_equal(A[:, 0].dense(), qkv.attend(Q, K)[:, 0].dense())
    assert (A.dense()[:, 1].sum(-1) < 1).all()


def test_numbers_may_be_of_any_real_kind():
    for scale in (1, np.float32(1), np.array(1.0), np.int64(1)):
        np.testing.assert_array_equal(qkv.attend(Q, K, scale=scale)[0, 0], qkv.attend(Q, K, scale=1.0)[0, 0].dense())
