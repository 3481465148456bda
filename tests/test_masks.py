"""What each mask shows, against index arithmetic; the algebra; and that a structured mask is never expanded."""

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import qkv
from qkv import masks
from qkv._tile import Tile

SHAPE = (2, 3, 11, 14)
IDS_Q = np.random.default_rng(0).integers(0, 3, (2, 11))
IDS_K = np.random.default_rng(1).integers(0, 3, 14)
HOLES = np.random.default_rng(2).random((2, 1, 11, 14)) < 0.5
OFFSETS = np.array([1, -4])


def at(offset: Any = 3) -> np.ndarray:
    return np.arange(11)[:, None] + np.asarray(offset)[..., None, None, None]


J = np.arange(14)
MASKS: dict[str, tuple[masks.Mask, np.ndarray]] = {
    "causal": (masks.causal(), at() >= J),
    "causal from 0": (masks.causal(offset=0), at(0) >= J),
    "causal by batch": (masks.causal(offset=OFFSETS), at(OFFSETS) >= J),
    "window": (masks.window(2, 1), (at() - 2 <= J) & (at() + 1 >= J)),
    "window, left open": (masks.window(None, 0), at() >= J),
    "window, right open": (masks.window(0, None), at() <= J),
    "window, open": (masks.window(None, None), np.ones((11, 14), bool)),
    "window by batch": (masks.window(1, 0, offset=OFFSETS), (at(OFFSETS) - 1 <= J) & (at(OFFSETS) >= J)),
    "lengths": (masks.lengths([5, 14]), np.array([5, 14])[:, None, None, None] > J),
    "one length": (masks.lengths(0), np.zeros((11, 14), bool)),
    "lengths of queries": (
        masks.lengths(9, queries=[11, 4]),
        (J < 9) & (np.arange(11)[:, None] < np.array([11, 4])[:, None, None, None]),
    ),
    "segments": (masks.segments(IDS_Q, IDS_K), IDS_Q[:, None, :, None] == IDS_K),
    "dense": (masks.dense(HOLES), HOLES),
    "dense by key": (masks.dense(HOLES[0, 0, 0]), HOLES[0, 0, 0]),
    "dense by query": (masks.dense(HOLES[:, :, :, :1]), HOLES[:, :, :, :1]),
}


def cells(mask: masks.Mask, rows: slice = slice(0, 11), keys: slice = slice(0, 14)) -> np.ndarray:
    """What the mask says about a tile of every head, as full cells."""
    tile = Tile(SHAPE, tuple(np.unravel_index(np.arange(6), SHAPE[:2])), rows, keys)
    part = np.broadcast_to(mask.of(tile), (6, rows.stop - rows.start, keys.stop - keys.start))
    return part.reshape(2, 3, *part.shape[1:])


@pytest.mark.parametrize("name", MASKS)
def test_a_mask_shows_what_index_arithmetic_says(name):
    mask, wanted = MASKS[name]
    mask.check(SHAPE)
    np.testing.assert_array_equal(cells(mask), np.broadcast_to(wanted, SHAPE))


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(MASKS)), st.integers(0, 10), st.integers(1, 11), st.integers(0, 13), st.integers(1, 14))
def test_a_tile_of_a_mask_is_that_part_of_the_whole(name, row, rows, key, keys):
    mask, wanted = MASKS[name]
    part = slice(row, min(11, row + rows)), slice(key, min(14, key + keys))
    np.testing.assert_array_equal(cells(mask, *part), np.broadcast_to(wanted, SHAPE)[..., part[0], part[1]])


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(MASKS)), st.sampled_from(sorted(MASKS)), st.integers(0, 9), st.integers(0, 12))
def test_masks_join_as_their_cells_do(one, other, row, key):
    (a, in_a), (b, in_b) = MASKS[one], MASKS[other]
    part = slice(row, row + 2), slice(key, key + 2)
    in_a, in_b = (np.broadcast_to(x, SHAPE)[..., part[0], part[1]] for x in (in_a, in_b))
    np.testing.assert_array_equal(cells(a & b, *part), in_a & in_b)
    np.testing.assert_array_equal(cells(a | b, *part), in_a | in_b)
    np.testing.assert_array_equal(cells(~a, *part), ~in_a)
    np.testing.assert_array_equal(cells(~(a | b) & ~b, *part), ~(in_a | in_b) & ~in_b)


def test_a_bool_array_joins_from_either_side():
    mask = masks.causal()
    for joined, wanted in [
        (mask & HOLES, MASKS["causal"][1] & HOLES), (HOLES & mask, MASKS["causal"][1] & HOLES),
        (mask | HOLES, MASKS["causal"][1] | HOLES), (HOLES | mask, MASKS["causal"][1] | HOLES),
    ]:  # fmt: skip
        np.testing.assert_array_equal(cells(joined), np.broadcast_to(wanted, SHAPE))


@pytest.mark.parametrize(
    ("mask", "text"),
    [
        (masks.causal() & masks.window(128, 0), "causal() & window(128, 0)"),
        (masks.causal(3) | ~masks.lengths([3, 4]), "causal(offset=3) | ~lengths([3, 4])"),
        ((masks.causal() | masks.window(None, 2, offset=OFFSETS)) & masks.segments([1, 1]),
         "(causal() | window(None, 2, offset=[1, -4])) & segments([1, 1], [1, 1])"),
        (masks.dense(HOLES), "dense(bool[2, 1, 11, 14])"),
        (masks.lengths(3, queries=2), "lengths(3, 2)"),
    ],
)  # fmt: skip
def test_a_mask_reads_as_it_was_written(mask, text):
    assert repr(mask) == text


SHORT_FORMS = [
    ({"causal": True}, masks.causal()),
    ({"window": (2, 1)}, masks.window(2, 1)),
    ({"lengths": [5, 14]}, masks.lengths([5, 14])),
    ({"lengths": masks.lengths([5, 14], queries=7)}, masks.lengths([5, 14], queries=7)),
    ({"mask": HOLES}, masks.dense(HOLES)),
    ({"causal": masks.causal(offset=OFFSETS), "window": (2, 9)},
     masks.causal(offset=OFFSETS) & masks.window(2, 9, offset=OFFSETS)),
    ({"causal": True, "window": (3, None), "lengths": [9, 12], "mask": HOLES},
     masks.causal() & masks.window(3, None) & masks.lengths([9, 12]) & HOLES),
    ({"causal": False, "mask": HOLES[0, 0]}, masks.dense(HOLES[0, 0])),
]  # fmt: skip


@pytest.mark.parametrize(("short", "mask"), SHORT_FORMS, ids=range(len(SHORT_FORMS)))
def test_the_short_forms_are_the_masks_joined(short, mask):
    rng = np.random.default_rng(3)
    q, k = rng.standard_normal((2, 3, 11, 4)), rng.standard_normal((2, 3, 14, 4))
    np.testing.assert_array_equal(qkv.attend(q, k, **short).dense(), qkv.attend(q, k, mask=mask).dense())


def test_lengths_do_not_move_the_alignment():
    q, k = np.ones((1, 1, 2, 3)), np.ones((1, 1, 6, 3))
    A = qkv.attend(q, k, causal=True, lengths=[3])
    np.testing.assert_array_equal(A.dense()[0, 0] > 0, [[1, 1, 1, 0, 0, 0]] * 2)


@pytest.mark.parametrize(
    "mask",
    [
        masks.causal() & masks.window(50, 0),
        masks.segments(np.arange(300_000) // 900),
        masks.lengths(1000) & masks.causal(offset=0),
        ~masks.window(None, None),
    ],
    ids=str,
)
def test_a_structured_mask_is_never_expanded(mask):
    n = 300_000  # a bool for each cell would be 84 GiB
    q = np.broadcast_to(np.float32(0), (n, 1))
    A = qkv.attend(q, q, mask=mask)
    tracemalloc.start()
    A[123_456, 123_400:123_500]
    A[5], A[-1], repr(A)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30e6


REFUSED = [
    (lambda: masks.dense(np.ones((2, 2))), qkv.DTypeError, "float64.*bias="),
    (lambda: masks.dense(np.ones((2, 2), int)), qkv.DTypeError, r"int64.*astype\(bool\)"),
    (lambda: masks.window(-1, 0), qkv.ArgumentError, "left of window is -1"),
    (lambda: masks.window(0, 1.5), qkv.DTypeError, "right of window"),
    (lambda: masks.window(True, 0), qkv.DTypeError, "left of window"),
    (lambda: masks.causal(offset=1.5), qkv.DTypeError, "offset has dtype float64"),
    (lambda: masks.lengths([1.0]), qkv.DTypeError, "lengths keys"),
    (lambda: masks.segments([0.5]), qkv.DTypeError, "q_ids"),
    (lambda: masks.causal() & np.ones(3), qkv.DTypeError, "expected bool"),
]


@pytest.mark.parametrize(("make", "kind", "message"), REFUSED, ids=range(len(REFUSED)))
def test_a_mask_refuses_what_it_cannot_mean(make, kind, message):
    with pytest.raises(kind, match=message):
        make()


UNFIT = [
    ({"mask": np.ones((11, 13), bool)}, r"mask has shape \(11, 13\).*\(2, 3, 11, 14\)"),
    ({"mask": np.ones((14, 11), bool)}, "swapaxes"),
    ({"mask": np.ones((2, 14), bool)}, r"padding by key.*\[:, None, None, :\].*lengths="),
    ({"mask": np.ones((1, 2, 3, 11, 14), bool)}, "broadcasts"),
    ({"lengths": [1, 2, 3]}, r"lengths has batch axes \(3,\)"),
    ({"lengths": [3, 15]}, "values from 3 to 15; expected 0 to n_k = 14"),
    ({"lengths": [-1, 3]}, "values from -1"),
    ({"mask": masks.segments(np.zeros(11, int))}, "k_ids"),
    ({"mask": masks.segments(np.zeros(10, int), np.zeros(14, int))}, "n_q = 11"),
    ({"mask": masks.segments(np.zeros((3, 11), int), np.zeros(14, int))}, "segments ids has batch axes"),
    ({"causal": masks.causal(offset=[1, 2, 3])}, "offset of causal"),
    ({"mask": ~masks.window(1, 1, offset=[1, 2, 3]) | masks.causal()}, "offset of window"),
    ({"mask": masks.lengths(3, queries=12)}, "n_q = 11"),
]


@pytest.mark.parametrize(("arguments", "message"), UNFIT, ids=range(len(UNFIT)))
def test_a_mask_that_does_not_fit_the_map_is_refused_at_once(arguments, message):
    with pytest.raises(qkv.QKVError, match=message) as refusal:
        qkv.attend(np.ones((2, 3, 11, 4)), np.ones((2, 3, 14, 4)), **arguments)
    assert isinstance(refusal.value, ValueError)
