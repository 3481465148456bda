"""What MultiHead refuses: each error names the argument, its shape, and a way out."""

import dataclasses

import numpy as np
import pytest

from qkv import MultiHead
from qkv.errors import ArgumentError, DTypeError, ShapeError

RNG = np.random.default_rng(22)


def normal(*shape):
    return RNG.standard_normal(shape)


def make(d_memory=7, d_values=7):
    w_q, w_k, w_v, w_o = normal(7, 12), normal(d_memory, 6), normal(d_values, 10), normal(20, 7)
    return MultiHead(w_q, w_k, w_v, w_o, n_heads=4, n_kv_heads=2)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"w_k": normal(7, 8)}, ShapeError, r"w_k must have 6 columns, .* = 2 · 3, got 8 .*\(7, 8\).*w.T"),
        ({"w_o": normal(7, 20)}, ShapeError, r"w_o must have 20 rows, .* = 4 · 5, got 7 .*\(7, 20\).*w.T"),
        ({"w_q": normal(7, 13)}, ShapeError, r"w_q must have columns that n_heads = 4 divides, got .*\(7, 13\)"),
        ({"w_v": normal(7, 9)}, ShapeError, r"w_v must have columns that n_kv_heads = 2 divides, got .*\(7, 9\)"),
        ({"w_q": normal(7)}, ShapeError, r"w_q must be a matrix \(in, out\), got w_q.shape = \(7,\)"),
        ({"b_k": normal(7)}, ShapeError, r"b_k must have shape \(6,\), one number for each column of w_k, got \(7,\)"),
        ({"n_heads": 0}, ArgumentError, "n_heads must be a whole number of at least 1, got 0"),
        ({"n_heads": True}, ArgumentError, "n_heads must be a whole number of at least 1, got True"),
        ({"n_kv_heads": 3}, ArgumentError, "n_kv_heads must divide n_heads, got n_heads = 4 and n_kv_heads = 3"),
        ({"w_v": normal(7, 10).astype("f4")}, DTypeError, "one dtype, got w_q float64, w_k float64, w_v float32"),
        ({"w_q": normal(7, 12) * 1j}, DTypeError, "w_q has dtype complex128"),
    ],
)  # fmt: skip
def test_matrices_that_do_not_fit_are_named_with_their_shapes(change, error, message):
    with pytest.raises(error, match=message):
        dataclasses.replace(make(), **change)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((normal(7),), ShapeError, r"x must be \(…, n, 7\), as w_q has 7 rows, got x.shape = \(7,\); .* x\[None\]"),
        ((normal(3, 8),), ShapeError, r"x must be \(…, n, 7\), as w_q has 7 rows, got x.shape = \(3, 8\)"),
        ((normal(3, 7),), ShapeError, r"x must be \(…, n, 5\), as w_k has 5 rows, got x.shape = \(3, 7\)"),
        ((normal(3, 7), normal(4, 7)), ShapeError, r"memory must be \(…, n, 5\), as w_k .*memory.shape = \(4, 7\)"),
        ((normal(2, 3, 7), normal(4, 5)), ShapeError, r"memory must have the batch axes of x, \(2,\), got \(\)"),
        ((normal(3, 7), normal(4, 5)), ShapeError, r"memory must be \(…, n, 2\), as w_v has 2 rows"),
        ((normal(3, 7), normal(4, 5), normal(3, 2)), ShapeError, r"each row of memory, got .*\(3, 2\) and .*\(4, 5\)"),
        ((normal(3, 7).astype("f4"),), DTypeError, "x is float32 but the layer is float64; cast one of the two"),
    ],
)  # fmt: skip
def test_arrays_that_do_not_fit_the_layer_are_named_with_their_shapes(arguments, error, message):
    with pytest.raises(error, match=message):
        make(d_memory=5, d_values=2)(*arguments)


def test_combine_names_the_shape_it_takes():
    with pytest.raises(ShapeError, match=r"= \(…, 4, n_q, 5\), got \(2, 6, 5\)"):
        make().combine(normal(2, 6, 5))


# ---- from named arrays


def test_a_layer_is_made_from_named_arrays_kept_either_way_round():
    layer, x = dataclasses.replace(make(), b_q=normal(12), b_o=normal(7)), normal(4, 7)
    parts = [name for name in layer.__dict__ if name[0] in "wb" and getattr(layer, name) is not None]
    names = {name: f"layer.0.{name}" for name in parts}
    arrays = {names[name]: getattr(layer, name) for name in parts}
    np.testing.assert_array_equal(MultiHead.from_arrays(arrays, names, 4, 2)(x), layer(x))
    turned = {key: array.T for key, array in arrays.items()}
    np.testing.assert_array_equal(MultiHead.from_arrays(turned, names, 4, 2, transpose=True)(x), layer(x))


def test_a_name_that_leads_nowhere_is_told_with_those_near_it():
    eye = np.eye(4)
    arrays = {f"attention.{part}.weight": eye for part in "qkvo"}
    names = {f"w_{part}": f"attention.{part}.weight" for part in "qkvo"}
    assert MultiHead.from_arrays(arrays, names, 2).n_heads == 2
    with pytest.raises(
        ArgumentError, match=r"no array 'attn.q.weight', which names gives for w_q; .*attention.q.weight"
    ):
        MultiHead.from_arrays(arrays, names | {"w_q": "attn.q.weight"}, 2)
    with pytest.raises(ArgumentError, match=r"names may hold w_q, .* b_o, got w_z"):
        MultiHead.from_arrays(arrays, names | {"w_z": "attention.q.weight"}, 2)
    with pytest.raises(ArgumentError, match="names must say which array is w_o, got"):
        MultiHead.from_arrays(arrays, {n: names[n] for n in ("w_q", "w_k", "w_v")}, 2)
