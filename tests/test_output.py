"""The output beside measures: what `A @ v` gives, from the pass that the measures need anyway."""

import numpy as np
import pytest

import qkv
from cases.definition import BFLOAT16, as64, assert_close_to_definition, bits, exact_and_naive, qkv_arrays
from qkv import masks, measures

ARGUMENTS = {
    "plain": {},
    "causal": {"causal": True},
    "holes and sinks": {"mask": np.arange(60)[:, None] % 5 != np.arange(90) % 7, "sinks": [0.5, -1.0, 0.0, 2.0]},
    "by the walk": {"mask": masks.causal() | masks.window(3, 3)},
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, BFLOAT16], ids=str)
@pytest.mark.parametrize("name", ARGUMENTS)
def test_the_output_beside_measures_equals_the_formula_on_dense_float64_weights(name, dtype, every_kernel):
    q, k, v = qkv_arrays(1, 60, 90, heads=4, kv_heads=2, d_k=8, d_v=5, dtype=dtype)
    arguments = {key: value for key, value in ARGUMENTS[name].items() if key != "mask"}
    visible = ARGUMENTS[name].get("mask")
    if visible is not None:
        visible = visible if isinstance(visible, np.ndarray) else _near(60, 90)
        arguments["visible"] = visible
    if arguments.pop("causal", False):
        arguments["visible"] = np.tri(60, 90, 30, dtype=bool)
    exact, naive = exact_and_naive(q, k, v, **arguments)
    out, lse = qkv.attend(q, k, **ARGUMENTS[name]).measure(measures.output(v), measures.lse())
    assert_close_to_definition(out, exact.out, naive.out, dtype)
    assert_close_to_definition(lse, exact.lse, naive.lse, np.float64 if dtype == np.float64 else np.float32)


def _near(n_q, n_k):
    i, j = np.arange(n_q)[:, None] + n_k - n_q, np.arange(n_k)
    return (j <= i) | (np.abs(i - j) <= 3)


def test_the_output_is_that_of_a_at_v_whatever_is_asked_beside_it(every_kernel):
    q, k, v = qkv_arrays(2, 150, 200, heads=4, kv_heads=2, d_k=16, d_v=20)
    A = qkv.attend(q, k, causal=True)
    wanted = bits(A @ v)
    for beside in ([], [measures.entropy()], [measures.top(3)], [measures.received(), measures.max_logit()]):
        assert bits(A.measure(measures.output(v), *beside)[0]) == wanted


def test_of_one_head_and_of_one_column():
    q, k, v = qkv_arrays(3, 20, 30, heads=2, d_k=8, d_v=3)
    A = qkv.attend(q, k)
    one = A[0, 1].measure(measures.output(v[0, 1]), measures.entropy())[0]
    np.testing.assert_array_equal(one, (A @ v)[0, 1])
    column, lse = A.measure(measures.output(v[0, 0, :, 0]), measures.lse())
    assert column.shape == lse.shape == (1, 2, 20)
    np.testing.assert_array_equal(column, A @ v[0, 0, :, 0])


def test_two_outputs_are_two_answers():
    q, k, v = qkv_arrays(4, 20, 30, heads=2, d_k=8, d_v=3)
    A = qkv.attend(q, k)
    one, other, _ = A.measure(measures.output(v), measures.output(2 * v), measures.lse())
    np.testing.assert_allclose(other, 2 * one, rtol=1e-6)


def test_a_row_that_sees_nan_is_nan_and_the_others_are_what_they_were(every_kernel):
    q, k, v = qkv_arrays(5, 40, 40, heads=2, d_k=8, d_v=3)
    plain = qkv.attend(q, k, causal=True).measure(measures.output(v), measures.lse(), measures.peak())
    k[..., 30, 0] = v[..., 35, 1] = np.nan
    A = qkv.attend(q, k, causal=True)
    for before, after in zip(plain, A.measure(measures.output(v), measures.lse(), measures.peak()), strict=True):
        assert bits(np.ascontiguousarray(before[:, :, :30])) == bits(np.ascontiguousarray(after[:, :, :30]))
        assert np.isnan(after[:, :, 30:]).all()


def test_values_that_do_not_fit_are_refused_as_by_a_at_v():
    q, k, v = qkv_arrays(6, 20, 30, heads=2, d_k=8, d_v=3)
    A = qkv.attend(q, k)
    with pytest.raises(qkv.ShapeError, match="v has shape"):
        A.measure(measures.output(v[..., :29, :]))
    with pytest.raises(qkv.DTypeError, match="float64"):
        A.measure(measures.output(as64(v)))


def test_parts_from_measures_merge_to_the_whole(every_kernel):
    q, k, v = qkv_arrays(7, 30, 100, heads=2, d_k=8, d_v=6, dtype=np.float64)
    parts = [
        qkv.attend(q, k[..., at, :]).measure(measures.output(v[..., at, :]), measures.lse())
        for at in (slice(0, 37), slice(37, 100))
    ]
    out, lse = qkv.merge(parts)
    A = qkv.attend(q, k)
    np.testing.assert_allclose(out, A @ v, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(lse, A.lse(), rtol=1e-13)
