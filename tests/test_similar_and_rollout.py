"""Two maps beside each other, and one token through many: Jensen–Shannon divergence and rollout."""

import itertools
import tracemalloc

import numpy as np
import pytest

import qkv
from cases.definition import assert_close_to_definition, bits, define, normal, qkv_arrays
from dense import PROBLEMS, problem, visible_of
from qkv import masks, measures

N = 200  # two tiles of queries, the second not full


def between(A, B):
    return A.measure(measures.similar(B))[0]


def maps_of_every_kind(dtype):
    return [qkv.attend(q, k, **arguments) for q, k, arguments in (problem(name, dtype) for name in PROBLEMS)]


def layers(name, dtype, n_layers=3):
    """The maps of a few layers with different numbers of heads, and what makes each: q, k, visible, the rest."""
    given, maps = [], []
    for at in range(n_layers):
        q, k, _ = qkv_arrays(30 + at, N, N, heads=2 + at, batch=2, dtype=dtype)
        arguments = problem(name, dtype, N, N)[2]
        visible = visible_of((N, N), name)
        if "mask" in arguments:
            arguments["mask"] = visible
        if "sinks" in arguments:
            arguments["sinks"] = np.linspace(-1, 1, 2 + at)
        maps.append(qkv.attend(q, k, **arguments))
        given.append((q, k, visible, {x: y for x, y in arguments.items() if x not in ("causal", "window", "mask")}))
    return maps, given


def rolled(given, dtype, residual=0.5):
    """Â_L · … · Â_1, dense: (2, N, N)."""
    product = np.eye(N, dtype=dtype)
    for q, k, visible, rest in given:
        w = define(q, k, np.ones_like(k), dtype=dtype, visible=visible, **rest).weights.mean(-3)
        product = (dtype(1 - residual) * w + dtype(residual) * np.eye(N, dtype=dtype)) @ product
    return product


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", PROBLEMS)
def test_rollout_equals_a_row_of_the_product_of_dense_float64_maps(name, dtype):
    maps, given = layers(name, dtype)
    wide = np.float64 if dtype == np.float32 else np.longdouble
    for token, residual in ((77, 0.5), (-1, 0.25)):
        exact, naive = (rolled(given, each, residual)[:, token] for each in (wide, dtype))
        got = qkv.rollout(maps, token, residual)
        assert got.dtype == dtype
        assert_close_to_definition(got, exact, [naive], dtype)


@pytest.mark.parametrize("residual", [0, 0.5, 1])
def test_rollout_through_maps_of_the_identity_is_the_token_itself(residual):
    q, k, _ = qkv_arrays(1, N, N)
    own = qkv.attend(q, k, mask=masks.window(0, 0))
    np.testing.assert_array_equal(qkv.rollout([own] * 4, 150, residual)[0], np.arange(N) == 150)


def test_rollout_with_the_whole_share_on_the_residual_reads_no_weight_into_it():
    maps, _ = layers("causal", np.float32)
    np.testing.assert_array_equal(qkv.rollout(maps, 3, residual=1)[1], np.arange(N) == 3)


@pytest.mark.parametrize("name", ["plain", "causal", "window", "capped"])
def test_the_shares_of_a_rollout_sum_to_1_where_the_rows_of_the_maps_do(name):
    maps, _ = layers(name, np.float64)
    np.testing.assert_allclose(qkv.rollout(maps, 199).sum(-1), 1, rtol=1e-12)


def test_a_sink_takes_its_share_in_every_layer():
    A = qkv.attend(np.zeros((3, 2)), np.zeros((3, 2)), sinks=0.0)  # rows of three quarters
    np.testing.assert_allclose(qkv.rollout([A, A], 0).sum(), (7 / 8) ** 2, rtol=1e-12)


def test_rollout_goes_from_the_last_layer_to_the_first():
    steps = [qkv.attend(np.zeros((9, 2)), np.zeros((9, 2)), mask=masks.window(0, 0, offset=o)) for o in (-1, -2)]
    alone = [np.flatnonzero(qkv.rollout([step], 8, residual=0)) for step in steps]
    assert [int(key[0]) for key in alone] == [7, 6]
    # query 1 of the last layer sees nothing there, and 0 of the first: the order shows at the edge
    np.testing.assert_array_equal(qkv.rollout(steps, 2, residual=0), np.zeros(9))
    np.testing.assert_array_equal(qkv.rollout(steps, 3, residual=0), np.arange(9) == 0)
    np.testing.assert_array_equal(qkv.rollout(steps, 2, residual=0.5), (np.arange(9) == 2) / 4 + (np.arange(9) < 2) / 4)


def test_rollout_of_one_head_needs_no_axis_for_it_and_a_picked_head_is_a_map():
    q, k, _ = qkv_arrays(2, N, N, heads=3)
    A = qkv.attend(q, k, causal=True)
    np.testing.assert_array_equal(qkv.rollout([A[0, 1], A[0, 1:2]], 90), qkv.rollout([A[:, 1:2]] * 2, 90)[0])


def test_a_row_that_the_token_does_not_reach_is_not_read():
    q, k = normal(3, (N, 4), (N, 4))
    broken = q.copy()
    broken[120] = np.nan
    A, B = (qkv.attend(each, k, causal=True) for each in (q, broken))
    np.testing.assert_array_equal(qkv.rollout([A, B], 119), qkv.rollout([A, A], 119))
    got = qkv.rollout([A, B], 120)
    assert np.isnan(got[:121]).all() and (got[121:] == 0).all()


def test_rollout_keeps_float32_between_layers_of_bfloat16_tensors():
    torch = pytest.importorskip("torch", reason="compares with tensors")
    q, k, _ = (torch.from_numpy(each).to(torch.bfloat16) for each in qkv_arrays(5, 40, 40))
    got = qkv.rollout([qkv.attend(q, k)] * 3, 7)
    wide = qkv.attend(q.float().numpy(), k.float().numpy())
    assert got.dtype == torch.float32
    np.testing.assert_allclose(got.numpy(), qkv.rollout([wide] * 3, 7), rtol=1e-5)


WRONG = {
    "none": (lambda A: qkv.rollout([], 0), qkv.ArgumentError, "no maps"),
    "arrays": (lambda A: qkv.rollout([np.eye(4)], 0), qkv.DTypeError, r"maps\[0\].*attend"),
    "token": (lambda A: qkv.rollout([A], 4), qkv.ArgumentError, "one of the 4 queries"),
    "token of another type": (lambda A: qkv.rollout([A], 1.0), qkv.ArgumentError, "1.0"),
    "residual": (lambda A: qkv.rollout([A], 0, residual=2), qkv.ArgumentError, "from 0 to 1"),
    "cross": (lambda A: qkv.rollout([A, qkv.attend(np.ones((4, 2)), np.ones((5, 2)))], 0), qkv.ShapeError, "maps.1."),
    "sizes": (lambda A: qkv.rollout([A, qkv.attend(np.ones((5, 2)), np.ones((5, 2)))], 0), qkv.ShapeError, "next"),
    "batch": (lambda A: qkv.rollout([A, qkv.attend(*np.ones((2, 3, 1, 4, 2)))], 0), qkv.ShapeError, "same axes"),
}


@pytest.mark.parametrize("what", WRONG)
def test_maps_that_do_not_chain_are_refused_by_name(what):
    call, kind, message = WRONG[what]
    with pytest.raises(kind, match=message):
        call(qkv.attend(np.ones((4, 2)), np.ones((4, 2))))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_divergence_of_two_heads_is_the_same_to_the_bit_from_either_side(dtype):
    for A, B in itertools.combinations(maps_of_every_kind(dtype), 2):
        assert bits(between(A, B)) == bits(between(B, A))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_divergence_is_0_for_equal_heads_and_at_most_log_2(dtype):
    maps = maps_of_every_kind(dtype)
    for A, B in itertools.product(maps, maps):
        found = between(A, B)
        assert (found >= 0).all() and (found <= dtype(np.log(2))).all()
        assert A is not B or (found == 0).all()


@pytest.mark.parametrize(("first", "second"), [((0, 1500), (1500, 3000)), ((2900, 3000), (0, 1)), ((0, 1), (2, 9))])
def test_rows_without_a_key_in_common_are_log_2_apart_wherever_their_keys_are(first, second):
    q, k = normal(1, (130, 4), (3000, 4))
    j = np.arange(3000)
    A, B = (qkv.attend(q, k, mask=(j >= a) & (j < b)) for a, b in (first, second))
    np.testing.assert_allclose(between(A, B), np.log(2), rtol=1e-6)
    np.testing.assert_array_equal(between(A, B), between(B, A))


def test_a_row_that_sees_no_key_is_half_of_log_2_from_one_that_does():
    A, B = (qkv.attend(np.ones((3, 2)), np.ones((5, 2)), causal=masks.causal(o)) for o in (-1, -2))
    np.testing.assert_allclose(between(A, B), [0, np.log(2) / 2, between(A, B)[2]], rtol=1e-12)
    assert between(A, B)[0] == 0


def test_close_heads_are_told_apart_beyond_the_rounding_of_a_weight():
    bias = np.array([0.0, 1e-5], np.float64)
    A, B = (qkv.attend(np.zeros((1, 1)), np.zeros((2, 1)), bias=each) for each in (bias, bias[::-1]))
    np.testing.assert_allclose(between(A, B), (0.5 * np.tanh(5e-6) * 2) ** 2 / 2, rtol=1e-6)


def test_one_walk_holds_every_head_against_every_other():
    q, k, _ = qkv_arrays(4, 140, 1100, heads=3, batch=2)
    A = qkv.attend(q, k, causal=True)
    pairs = np.stack(A[0].measure(*(measures.similar(head) for head in A[0])))
    assert pairs.shape == (3, 3, 140)
    np.testing.assert_array_equal(pairs, pairs.swapaxes(0, 1))
    for a, b in itertools.product(range(3), range(3)):
        np.testing.assert_array_equal(pairs[b, a], between(A[0, a], A[0, b]))
    np.testing.assert_array_equal(between(A, A[:, [1, 2, 0]])[0, 1], pairs[1, 2])


def test_maps_of_two_dtypes_are_compared_in_that_of_the_first():
    q, k, _ = qkv_arrays(4, 20, 30)
    A, B = qkv.attend(q, k), qkv.attend(q.astype(np.float64), k.astype(np.float64))
    assert between(A, B).dtype == np.float32 and between(B, A).dtype == np.float64
    assert between(A, B).max() < 1e-12


@pytest.mark.parametrize("what", ["similar", "rollout", "distance", "contribution"])
def test_nothing_is_ever_dense(what):
    n = 3000
    q, k, v = normal(5, (n, 4), (n, 4), (n, 4))
    A = qkv.attend(q, k, causal=True)
    calls = {
        "similar": lambda: between(A, qkv.attend(k, q)),
        "rollout": lambda: qkv.rollout([A, A], -1),
        "distance": lambda: A.measure(measures.distance()),
        "contribution": lambda: A.measure(measures.contribution(v, np.eye(4, dtype=np.float32))),
    }
    tracemalloc.start()
    calls[what]()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * n * n / 2, f"{peak / 2**20:.0f} MiB; the weights alone would be 34"
