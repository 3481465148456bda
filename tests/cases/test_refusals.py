"""What does not fit is refused at the door, by name, with both sizes and before any arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

import qkv
from cases.definition import DTYPES, qkv_arrays


def _refusal(error, builtin, *arguments, **keywords):
    """The one-line message of the error that attend raises, which is also the builtin that callers may catch."""
    with pytest.raises(error) as caught:
        qkv.attend(*arguments, **keywords)
    assert isinstance(caught.value, builtin)
    assert isinstance(caught.value, qkv.QKVError)
    message = str(caught.value)
    assert message
    assert len(message) > 20
    return message


# B070: hyunwoongko/transformer#32
@pytest.mark.parametrize(
    "shape", [(3, 4), (4, 5), (2, 3, 5), (4,), (1, 1, 3, 6), (2, 1, 3, 5), (1, 1, 1, 3, 5), (0,)], ids=str
)
@pytest.mark.parametrize("name", ["mask", "bias"])
def test_a_mask_that_does_not_fit_is_refused_with_both_shapes(name, shape):
    q, k, _ = qkv_arrays(70, 3, 5, heads=1, d_k=4)
    array = np.ones(shape, bool if name == "mask" else np.float32)
    message = _refusal(qkv.ShapeError, ValueError, q, k, **{name: array})
    assert name in message
    assert str(shape) in message
    assert "3, 5)" in message


def test_values_that_do_not_fit_the_keys_are_refused_with_both_sizes():
    q, k, v = qkv_arrays(71, 3, 5)
    for bad, named in ((v[:, :, :4], "(1, 2, 4, 8)"), (np.repeat(v, 2, axis=1)[:, :3], "(1, 3")):
        with pytest.raises(qkv.ShapeError) as caught:
            qkv.attend(q, k) @ bad
        assert isinstance(caught.value, ValueError)
        assert named in str(caught.value)


# B103: huggingface/transformers#48356
@pytest.mark.parametrize(("d_q", "d_k"), [(4, 5), (64, 32), (1, 0), (8, 1)])
@pytest.mark.parametrize("lead", [(1, 1), (2,), ()], ids=str)
def test_unequal_widths_of_query_and_key_are_refused_by_name(lead, d_q, d_k):
    q, k = np.zeros((*lead, 2, d_q), np.float32), np.zeros((*lead, 3, d_k), np.float32)
    message = _refusal(qkv.ShapeError, ValueError, q, k)
    assert str(q.shape) in message
    assert str(k.shape) in message
    assert f"q has width {d_q}" in message
    assert f"k has width {d_k}" in message


@pytest.mark.parametrize(
    ("q_shape", "k_shape", "named"),
    [
        ((1, 6, 2, 4), (1, 4, 3, 4), ("6 heads", "4", "(1, 6, 2, 4)", "(1, 4, 3, 4)")),
        ((1, 2, 2, 4), (1, 4, 3, 4), ("2 heads", "4", "(1, 2, 2, 4)", "(1, 4, 3, 4)")),
        ((2, 2, 2, 4), (3, 2, 3, 4), ("(2,", "(3,")),
        ((1, 1, 2, 4), (1, 3, 4), ("(1, 1, 2, 4)", "(1, 3, 4)")),
    ],
)
def test_heads_batches_and_axes_that_do_not_fit_are_refused_with_both_sizes(q_shape, k_shape, named):
    message = _refusal(qkv.ShapeError, ValueError, np.zeros(q_shape), np.zeros(k_shape))
    for part in named:
        assert part in message


# B162: found while writing tests
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("which", ["q", "k", "both"])
def test_complex_arrays_are_refused(which, dtype):
    q, k, v = (x[:1, :1] for x in qkv_arrays(162, 2, 2, d_k=2, dtype=np.float32))
    bad_q = (q + 1j * q).astype(dtype) if which in ("q", "both") else q
    bad_k = (k + 1j * k).astype(dtype) if which in ("k", "both") else k
    message = _refusal(qkv.DTypeError, TypeError, bad_q, bad_k)
    assert np.dtype(dtype).name in message
    with pytest.raises(qkv.DTypeError, match=np.dtype(dtype).name):
        qkv.attend(q, k) @ v.astype(dtype)
    with pytest.raises(qkv.DTypeError, match=np.dtype(dtype).name):
        qkv.attend(q, k, bias=np.zeros((2, 2), dtype))


@pytest.mark.parametrize("dtype", [object, "U3", "M8[s]"], ids=str)
def test_arrays_that_are_no_numbers_are_refused(dtype):
    bad = np.zeros((2, 2), dtype)
    _refusal(qkv.DTypeError, TypeError, bad, bad)


@pytest.mark.parametrize("first", DTYPES, ids=str)
@pytest.mark.parametrize("second", DTYPES, ids=str)
def test_mixed_dtypes_are_refused_and_each_is_named(first, second):
    if first == second:
        return
    q, k, v = qkv_arrays(163, 2, 3, dtype=first)
    message = _refusal(qkv.DTypeError, TypeError, q, k.astype(second))
    assert first.name in message
    assert second.name in message
    with pytest.raises(qkv.DTypeError) as caught:
        qkv.attend(q, k) @ v.astype(second)
    assert first.name in str(caught.value)
    assert second.name in str(caught.value)


# B143: pytorch/pytorch#42929
# B144: pytorch/pytorch#124464
@pytest.mark.parametrize(
    "arguments", [{"dropout": 0.4}, {"dropout": 0.0}, {"dropout": 0.4, "training": True}, {"dropout_p": 0.4}], ids=str
)
def test_there_is_no_dropout_to_confuse_the_map_with(arguments):
    q, k, v = qkv_arrays(143, 5, 5, d_k=4)
    with pytest.raises(TypeError, match="dropout"):
        qkv.attend(q, k, **arguments)
    with pytest.raises(TypeError, match="dropout"):
        qkv.attention(q, k, v, **arguments)


@pytest.mark.parametrize(
    "arguments", [{"mask": np.zeros((3, 5), bool)}, {"lengths": [0]}, {"bias": np.full((3, 5), -np.inf)}], ids=str
)
def test_who_wants_to_know_of_empty_rows_is_told(arguments):
    q, k, _ = qkv_arrays(144, 3, 5)
    assert qkv.attend(q, k, **arguments).lse().max() == -np.inf
    with pytest.raises(qkv.EmptyRowError) as caught:
        qkv.attend(q, k, empty="raise", **arguments) @ np.ones(5, np.float32)
    assert isinstance(caught.value, ValueError)
    qkv.attend(q, k, empty="raise", causal=True)
