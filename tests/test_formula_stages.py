"""What qkv.formula hides stays hidden, and its stages stand in an order that matters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from qkv import formula

if TYPE_CHECKING:
    from collections.abc import Callable

Array = np.ndarray[Any, np.dtype[Any]]
DTYPES = [np.float16, np.float32, np.float64, np.longdouble]

poisons = st.sampled_from([np.nan, np.inf, -np.inf, 1e300, -0.0])


def normal(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape)


def qkv(seed: int, n_q: int, n_k: int) -> tuple[Array, Array, Array]:
    return normal(seed, n_q, 4), normal(seed + 1, n_k, 4), normal(seed + 2, n_k, 3)


def same_bits(a: Array, b: Array) -> bool:
    # Not tobytes(): the padding of a long double is no part of the number.
    return np.array_equal(a, b) and np.array_equal(np.signbit(a), np.signbit(b))


# ---- what is hidden ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
def test_nan_or_inf_in_hidden_keys_and_values_changes_no_bit(dtype: Any, poison: float) -> None:
    q, k, v = (x.astype(dtype) for x in qkv(11, 6, 9))
    visible = formula.causal(6, 9, offset=2)
    visible[3] = False
    clean = formula.attention(q, k, v, visible=visible)
    k[8], v[8] = poison, poison  # seen by no one
    assert same_bits(formula.attention(q, k, v, visible=visible), clean)
    bias = np.where(visible, 0, -np.inf).astype(dtype)
    assert same_bits(formula.attention(q, k, v, bias=bias), clean)
    v[5] = poison  # seen by queries 4 and 5: query 3 sees nothing
    assert same_bits(formula.attention(q, k, v, visible=visible)[:4], clean[:4])


@settings(deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n_q=st.integers(1, 40), n_k=st.integers(1, 40), poison=poisons)
def test_whatever_the_sizes_and_the_mask_what_no_one_sees_changes_no_bit(
    seed: int, n_q: int, n_k: int, poison: float
) -> None:
    q, k, v = qkv(seed, n_q, n_k)
    visible = normal(seed + 3, n_q, n_k) > 0.3
    unseen = normal(seed + 4, n_k) > 0
    visible[:, unseen] = False
    clean = formula.attention(q, k, v, visible=visible, sink=normal(seed + 5, n_q))
    k[unseen], v[unseen] = poison, poison
    assert same_bits(formula.attention(q, k, v, visible=visible, sink=normal(seed + 5, n_q)), clean)


@pytest.mark.parametrize(("poison", "row"), [(np.nan, np.nan), (np.inf, np.inf), (-np.inf, -np.inf)])
def test_nan_or_inf_in_a_visible_value_shows_in_the_rows_that_see_it_and_in_its_column(
    poison: float, row: float
) -> None:
    q, k, v = qkv(12, 6, 6)
    clean = formula.attention(q, k, v, visible=formula.causal(6, 6))
    v[4, 1] = poison
    out = formula.attention(q, k, v, visible=formula.causal(6, 6))
    assert np.array_equal(out[4:, 1], [row, row], equal_nan=True)
    out[4:, 1] = clean[4:, 1]
    assert out == pytest.approx(clean, rel=1e-14)


def test_opposite_infinities_in_visible_values_are_nan_and_a_vanishing_weight_still_sees() -> None:
    v = np.array([[np.inf, np.inf], [-np.inf, 1.0]])
    out = formula.blend(np.array([[0.0, 0.0], [-2000.0, 0.0]]), v)
    assert np.array_equal(out, [[np.nan, np.inf], [np.nan, np.inf]], equal_nan=True)


def test_nan_in_a_query_or_in_a_visible_key_stays_in_the_rows_that_see_it() -> None:
    q, k, v = qkv(13, 6, 6)
    visible = formula.causal(6, 6)
    clean = formula.attention(q, k, v, visible=visible)
    q[1], k[4] = np.nan, np.nan
    score = formula.biased_score(q, k, visible=visible)
    out, weight = formula.blend(score, v), formula.weight(score)
    assert np.isnan(out).all(axis=-1).tolist() == [False, True, False, False, True, True]
    assert np.array_equal(out[[0, 2, 3]], clean[[0, 2, 3]])
    assert not weight[~visible].any()  # even in a row of NaN, a hidden key weighs 0
    assert np.isnan(formula.lse(score)).tolist() == [False, True, False, False, True, True]


def test_minus_infinity_in_a_bias_equals_a_mask_and_the_most_negative_number_does_not() -> None:
    q, k, v = qkv(14, 4, 5)
    visible = normal(15, 4, 5) > 0
    visible[2] = False
    hidden = formula.attention(q, k, v, visible=visible)
    assert np.array_equal(formula.attention(q, k, v, bias=np.where(visible, 0.0, -np.inf)), hidden)
    finite = formula.attention(q, k, v, bias=np.where(visible, 0.0, np.finfo(np.float64).min))
    assert not hidden[2].any()
    assert finite[2] == pytest.approx(v.mean(axis=0), rel=1e-13)  # all alike, so all the same


def test_a_bias_of_minus_infinity_hides_nan_too() -> None:
    q, k, v = qkv(16, 2, 3)
    bias = np.array([0.0, 0.0, -np.inf])
    clean = formula.attention(q, k, v, bias=bias)
    k[2] = v[2] = np.nan
    assert np.array_equal(formula.attention(q, k, v, bias=bias), clean)


# ---- the order of the stages -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("swap", "stray"),
    [
        pytest.param(0, 0.0, id="temperature and softcap"),
        pytest.param(1, 0.0, id="softcap and bias"),
        # A finite bias commutes with a mask; a NaN beside a hidden key shows whether the mask came last.
        pytest.param(2, np.nan, id="bias and mask"),
        pytest.param(3, 0.0, id="mask and softmax"),
    ],
)
def test_each_swap_of_two_neighbouring_stages_changes_the_result(swap: int, stray: float) -> None:
    q, k, v = qkv(17, 3, 3)
    visible, bias = formula.causal(3, 3), 2 * normal(18, 3, 3)
    bias[0, 2] = stray
    stages: list[Callable[[Array], Array]] = [
        lambda x: x / 3.0,
        lambda x: formula.cap(x, 0.5),
        lambda x: formula.add_bias(x, bias),
        lambda x: formula.hide(x, visible),
        formula.weight,
    ]

    def run(order: list[Callable[[Array], Array]]) -> Array:
        x = formula.score(q, k)
        for stage in order:
            x = stage(x)
        return np.where(x == -np.inf, 0, x) @ v

    right = formula.attention(q, k, v, temperature=3.0, softcap=0.5, bias=bias, visible=visible)
    assert run(stages) == pytest.approx(right, rel=1e-14)
    stages[swap], stages[swap + 1] = stages[swap + 1], stages[swap]
    assert not np.allclose(run(stages), right, rtol=1e-2)


def test_cap_bends_into_its_bounds_and_leaves_small_scores() -> None:
    assert formula.cap(np.array([-np.inf, -1e9, 0.0, 1e9]), 30.0).tolist() == [-30, -30, 0, 30]
    assert formula.cap(np.array([0.01]), 30.0) == pytest.approx(0.01, rel=1e-6)
