"""Biases and scores by tile against their definitions, T5's buckets against the model library's."""

from typing import Any

import numpy as np
import pytest

import qkv
from cases.definition import as64, assert_close_to_definition, normal, qkv_arrays
from qkv import biases, formula, scores
from qkv._tile import Tile


def whole(bias: biases.Bias, shape: tuple[int, ...]) -> np.ndarray:
    bias.check(shape)
    heads = int(np.prod(shape[:-2]))
    tile = Tile(shape, tuple(np.unravel_index(np.arange(heads), shape[:-2])), slice(0, shape[-2]), slice(0, shape[-1]))
    return np.broadcast_to(bias.of(tile), (heads, *shape[-2:])).reshape(shape)


@pytest.mark.parametrize(
    ("n_heads", "slopes"),
    [
        (1, [2**-8]), (2, [2**-4, 2**-8]), (8, [2.0**-h for h in range(1, 9)]),
        (6, [1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 2, 1 / 8]), (3, [2**-4, 2**-8, 2**-2]), (0, []),
    ],
)  # fmt: skip
def test_alibi_slopes_are_the_papers(n_heads, slopes):
    np.testing.assert_allclose(biases.alibi_slopes(n_heads), slopes)


@pytest.mark.parametrize("offset", [None, 0, np.array([3, 9])])
def test_alibi_is_a_slope_times_the_distance_and_never_positive(offset):
    shape = (2, 4, 5, 9)
    at = np.arange(5)[:, None] + np.asarray(4 if offset is None else offset)[..., None, None, None]
    wanted = -biases.alibi_slopes(4)[:, None, None] * np.abs(at - np.arange(9))
    np.testing.assert_allclose(whole(biases.alibi(offset=offset), shape), np.broadcast_to(wanted, shape))
    own = whole(biases.alibi([1.0, 2.0, 3.0, 4.0], offset=offset), shape)
    np.testing.assert_allclose(own[:, 3], 4 * own[:, 0])
    np.testing.assert_allclose(whole(biases.alibi(0.5, offset=offset), shape)[:, 1], 0.5 * own[:, 0])


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("buckets", "farthest"), [(32, 128), (32, 20), (8, 64), (6, 128)])
def test_t5_buckets_are_those_of_the_model_library(bidirectional, buckets, farthest):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5", reason="transformers is not installed")
    distance = np.arange(-700, 700)
    wanted = t5.T5Attention._relative_position_bucket(torch.from_numpy(distance), bidirectional, buckets, farthest)
    bias = biases.relative(np.zeros((buckets, 1)), bidirectional, farthest)
    np.testing.assert_array_equal(bias.bucket(distance), wanted.numpy())


def test_a_relative_bias_is_the_table_at_the_bucket_and_head():
    (table,) = normal(1, (32, 3), dtype=np.float64)
    bias = biases.relative(table, bidirectional=False)
    got = whole(bias, (2, 3, 5, 9))
    for i in range(5):
        for j in range(9):
            np.testing.assert_array_equal(got[1, :, i, j], table[bias.bucket(np.array(j - i - 4))])


def test_biases_add_up():
    shape = (1, 2, 5, 9)
    (array,) = normal(1, (2, 5, 9), dtype=np.float64)
    one, other = biases.alibi(), biases.dense(array)
    wanted = whole(one, shape) + array
    for joined in (one + other, one + array, array + one):
        np.testing.assert_array_equal(whole(joined, shape), wanted)
    assert repr(one + other) == "alibi() + dense(float64[2, 5, 9])"
    assert repr(biases.alibi(0.5, offset=2)) == "alibi(0.5, offset=2)"
    assert repr(biases.relative(np.zeros((4, 1)))) == "relative([[0.0], [0.0], [0.0], [0.0]], True, 128)"


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_a_finite_bias_too_large_for_the_dtype_hides_nothing(dtype):
    q, k, v = qkv_arrays(2, 3, 4, dtype=dtype)
    A = qkv.attend(q, k, bias=np.array([0.0, -1e300, 0.0, 0.0])[None])
    assert A.measure(qkv.measures.entropy(normalised=True))[0].max() < 1  # four visible keys, three with weight
    assert (A.max_logit().key == np.argmax(as64(A.scores()), -1)).all()
    only = qkv.attend(q, k, bias=np.full((1, 4), -1e300))
    np.testing.assert_array_equal(np.asarray(only), 0.25)
    assert (A.top(4).key >= 0).all()
    hidden = qkv.attend(q, k, bias=np.array([0.0, -np.inf, 0.0, 0.0])[None])
    assert (hidden.top(4).key[..., 3] == -1).all()
    np.testing.assert_array_equal(A @ v, hidden @ v)


@pytest.mark.parametrize("n_k", [9, 1030])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("kind", "define", "shapes"),
    [
        (scores.Bilinear, formula.bilinear_score, [(5, 7)]),
        (scores.Additive, formula.additive_score, [(5, 6), (7, 6), (6,)]),
        (scores.Additive, formula.additive_score, [(5, 6), (7, 6), (6,), (6,)]),
    ],
    ids=["bilinear", "additive", "additive with b"],
)
def test_bilinear_and_additive_scores_are_the_formulas(kind, define, shapes, dtype, n_k):
    q, k = normal(3, (2, 300, 5), (2, n_k, 7), dtype=dtype)
    learned = normal(4, *shapes, dtype=dtype)
    naive = define(q, k, *learned)
    exact = define(*(x.astype(np.longdouble if dtype == np.float64 else np.float64) for x in (q, k, *learned)))
    A = qkv.attend(q, k, score=kind(*learned))  # scale is 1 for both
    assert_close_to_definition(A.scores().dense(), exact, [naive], dtype)
    assert_close_to_definition(A.dense(), formula.weight(exact), [formula.weight(naive)], dtype)
    half = qkv.attend(q, k, score=kind(*learned), scale=0.5, causal=True)
    assert_close_to_definition(half.scores().dense(), exact / 2, [naive / 2], dtype)
    seen = formula.causal(300, n_k)
    nobody = [not seen[i : i + 128, j : j + 1024].any() for i in range(0, 300, 128) for j in range(0, n_k, 1024)]
    assert half[0].plan().skipped == sum(nobody) == 2


def test_the_nonlocal_block_of_pixels_is_attention_with_another_first_line():
    x, w_theta, w_phi, w_g = normal(5, (4, 5, 6), (6, 3), (6, 3), (6, 2), dtype=np.float64)
    pixels = x.reshape(20, 6)
    out = qkv.attend(pixels @ w_theta, pixels @ w_phi, scale=1) @ (pixels @ w_g)
    np.testing.assert_allclose(out.reshape(4, 5, 2), formula.nonlocal_block(x, w_theta, w_phi, w_g))
    pairs = qkv.attend(pixels, pixels, score=scores.Bilinear(w_theta @ w_phi.T)) @ (pixels @ w_g)
    np.testing.assert_allclose(pairs, out)


TWO_HEADS = np.ones((2, 3, 4))
REFUSED: list[tuple[Any, type[Exception], str]] = [
    (lambda: biases.dense(np.ones((2, 2), bool)), qkv.DTypeError, "bool.*mask="),
    (lambda: biases.dense(np.ones((2, 2), complex)), qkv.DTypeError, "complex128"),
    (lambda: biases.relative(np.zeros(32)), qkv.ShapeError, r"\(32,\)"),
    (lambda: biases.relative(np.zeros((32, 2)), max_distance=8), qkv.ArgumentError, "max_distance is 8"),
    (lambda: qkv.attend(TWO_HEADS, TWO_HEADS, bias=biases.relative(np.zeros((32, 3)))), qkv.ShapeError,
     "3 heads; the map has 2"),
    (lambda: qkv.attend(TWO_HEADS, TWO_HEADS, bias=biases.alibi([1.0] * 3)), qkv.ShapeError, "slopes"),
    (lambda: qkv.attend(TWO_HEADS, TWO_HEADS, bias=np.ones((3, 4))), qkv.ShapeError, "bias has shape"),
    (lambda: qkv.attend(np.ones((3, 4)), np.ones((3, 5)), score=scores.Bilinear(np.ones((4, 4)))), qkv.ShapeError,
     r"w of Bilinear has shape \(4, 4\); expected \(d_q, d_k\) = \(4, 5\)"),
    (lambda: qkv.attend(np.ones((3, 4)), np.ones((3, 5)),
                        score=scores.Additive(np.ones((4, 2)), np.ones((4, 2)), np.ones(2))), qkv.ShapeError, "w_k"),
    (lambda: scores.Bilinear(np.ones(3)), qkv.ShapeError, "2 axes"),
    (lambda: qkv.attend(np.ones((3, 4)), np.ones((3, 4)), score="dot"), qkv.DTypeError, "qkv.scores"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "kind", "message"), REFUSED, ids=range(len(REFUSED)))
def test_a_bias_or_score_that_does_not_fit_is_refused(make, kind, message):
    with pytest.raises(kind, match=message):
        make()
