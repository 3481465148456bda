"""A map indexes as NumPy indexes the dense matrix: same shapes, same bits, same refusals; lazy where it can be."""

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import qkv
from cases.definition import normal, qkv_arrays

Q, K, _ = qkv_arrays(21, 131, 1030, batch=2, heads=4, kv_heads=2)
A = qkv.attend(Q, K, causal=True)
W = np.asarray(A)
SMALL = qkv.attend(*normal(3, (5, 4), (7, 4)), mask=np.random.default_rng(1).random((5, 7)) < 0.7)
BOOL = np.random.default_rng(2)


def same(index: object, a: qkv.AttentionMap = A, w: np.ndarray = W) -> None:
    got, wanted = a[index], w[index]
    if isinstance(got, qkv.AttentionMap):
        assert got.shape == wanted.shape
        got = np.asarray(got)
    assert np.shape(got) == np.shape(wanted) and got.dtype == wanted.dtype
    np.testing.assert_array_equal(got, wanted)


INDICES = [
    (0, 1, 7), (1, 3, 130, 1029), (-1, -1, -1, -1), (..., 5), (..., 5, slice(None)), (slice(None), 2, slice(3, 9)),
    (0, 0, slice(None, None, -40), slice(1029, None, -111)), (..., [1, 5, 130], slice(None)), (..., [1029, 0, 0]),
    ([1, 0], [2, 3], [5, 6], [7, 8]), (0, 1, [[0, 1], [130, 2]], [[3, 4], [5, 1029]]), (1, 2, np.arange(131) % 2 == 0),
    (0, slice(1, 3), 4, np.arange(1030) < 3), (None, 0, ..., 3), (0, None, 1, None, 5, None),
    ([0, 1], 1, slice(0, 2), 3),
    (0, [0, 1, 3], slice(4, 6), 1000), (0, [0, 3], 5, slice(1000, None)), (slice(0, 1), [0, 3], [5, 6], slice(9)),
    (0, 0, slice(5, 5), slice(None)), (0, 0, [], slice(None)), (0, 1, np.int64(3), np.uint8(4)),
    (0, 1, np.eye(131, 1030, dtype=bool)), (slice(None), slice(None), slice(128, 131), slice(1023, 1025)),
    (True, 0, 0, 0), (np.array([True, False]), 0, 7),
]  # fmt: skip


@pytest.mark.parametrize("index", INDICES, ids=range(len(INDICES)))
def test_an_index_gives_what_numpy_gives_from_the_dense_matrix(index):
    same(index)


LEADING = [0, -1, slice(None), slice(0, 1), [1, 0, 1], (0, 2), (slice(None), 1), (0, ...), None,
           np.array([True, False]), (0, [1, 3]), ..., (), (1, slice(None, None, -1)),
           (slice(None), [0, 3])]  # fmt: skip


@pytest.mark.parametrize("index", LEADING, ids=range(len(LEADING)))
def test_an_index_on_the_leading_axes_gives_a_map_on_the_same_q_and_k(index):
    assert isinstance(A[index], qkv.AttentionMap)
    same(index)
    assert np.shares_memory(A[index]._problem.q, Q)


@pytest.mark.parametrize("index", [(0, 1, slice(None), slice(None)), (..., slice(None)), (slice(None),) * 3], ids=str)
def test_an_index_that_names_the_queries_or_keys_gives_an_array_even_where_it_takes_them_all(index):
    assert isinstance(A[index], np.ndarray)
    same(index)


def test_picking_twice_is_picking_once():
    same((2,), A[1], W[1])
    same((3, slice(4)), A[1][[0, 2]][1], W[1][[0, 2]][1])
    assert A[0, 1].shape == (131, 1030) and A[0, 1].ndim == 2


@settings(max_examples=200, deadline=None)
@given(st.one_of(
    hnp.basic_indices((5, 7), allow_newaxis=True),
    hnp.integer_array_indices((5, 7), result_shape=hnp.array_shapes(max_dims=2, max_side=3)),
    hnp.arrays(bool, (5, 7)),
    hnp.arrays(bool, (5,)),
))  # fmt: skip
def test_any_index_of_a_single_head_is_numpys(index):
    same(index, SMALL, np.asarray(SMALL))


@settings(max_examples=100, deadline=None)
@given(hnp.basic_indices((2, 4, 131, 1030), allow_newaxis=True, allow_ellipsis=True))
def test_any_basic_index_of_many_heads_is_numpys(index):
    same(index)


@pytest.mark.parametrize("index", [(2,), (0, 4), (0, 0, 131), (0, 0, 0, 1030), (0, 0, 0, 0, 0), (0, 0, [131]), (0.5,),
                                   (..., ...), ("a",), np.ones((3,), bool), (0, 0, 0, -1031)], ids=str)  # fmt: skip
def test_an_index_that_numpy_refuses_is_refused(index):
    with pytest.raises(IndexError):
        W[index]
    with pytest.raises(IndexError):
        A[index]


@pytest.mark.parametrize("stage", ["raw", "capped", "biased"])
def test_scores_index_as_the_map_does(stage):
    problem = {"softcap": 2.0, "bias": np.linspace(-1, 1, 1030, dtype=np.float32)[None], "causal": True}
    scores = qkv.attend(Q, K, **problem).scores(stage)
    whole = np.asarray(scores)
    assert scores.shape == W.shape and scores.dtype == np.float32
    for index in INDICES[:20]:
        np.testing.assert_array_equal(scores[index], whole[index])
    assert scores[0].shape == W[0].shape and type(scores[0]) is type(scores)
    assert np.isneginf(whole).any() == (stage == "biased")


def test_a_map_iterates_over_its_first_axis():
    assert len(A) == 2
    assert [part.shape for part in A] == [(4, 131, 1030)] * 2
    np.testing.assert_array_equal(list(SMALL)[3], np.asarray(SMALL)[3])


@pytest.mark.parametrize(
    "index", [0, (0, 1), (..., 5, slice(None)), (0, 1, 5), (0, 1, 5, 6), (..., slice(3, 9), slice(2))]
)
def test_the_transposed_map_indexes_as_the_transposed_matrix(index):
    got, wanted = A.T[index], W.swapaxes(-1, -2)[index]
    got = got.dense() if not isinstance(got, np.ndarray | np.generic) else got
    np.testing.assert_array_equal(got, wanted)


LONG = qkv.attend(np.zeros((200_000, 2), np.float32), np.zeros((200_000, 2), np.float32))


@pytest.mark.parametrize(
    "ask", [np.asarray, lambda a: np.asarray(a.T), lambda a: a[:], lambda a: a[:, :-1], lambda a: a[np.arange(100_000)]]
)
def test_more_than_a_gibibyte_takes_an_explicit_dense(ask):
    with pytest.raises(qkv.DenseError, match=r"bytes .*GiB.*dense\(\)"):
        ask(LONG)


def test_cells_and_rows_of_a_map_too_large_to_store_are_there():
    assert LONG.shape == (200_000, 200_000)
    assert LONG[7, 123_456] == np.float32(1 / 200_000)
    assert LONG[np.array([0, 199_999]), np.array([199_999, 0])].tolist() == [np.float32(1 / 200_000)] * 2


def test_the_size_of_a_result_is_known_before_any_coordinate_is_worked_out():
    q = np.broadcast_to(np.float32(0), (10**6, 1))
    with pytest.raises(qkv.DenseError, match="bytes"):
        qkv.attend(q, q)[np.zeros((500, 1), np.intp), slice(None)]
    with pytest.raises(qkv.DenseError, match="bytes"):
        qkv.attend(q, q)[np.zeros((20_000, 1), np.intp), np.zeros((1, 20_000), np.intp)]
