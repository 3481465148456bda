"""Kinds of layer side by side, and the two scores: their counts against small layers that are run and counted."""

import numpy as np
import pytest

from counting import Counted, counting, made, multiply_adds, products
from qkv import cost, formula
from qkv.errors import ArgumentError

N, D, K, R = 27, 6, 3, 9


def by_name(n=N, d=D, k=K, r=R):
    return {kind.name: kind for kind in cost.kinds(n, d, k, r)}


# ---- multiply-adds: the term of each kind is what its inner loop does ---------------------------------------


def test_self_attention_meets_all_pairs():
    q, k = counting((N, D), (N, D))
    formula.dot_score(q, k)
    assert by_name()["self-attention"].multiply_adds == multiply_adds() == N * N * D


def test_a_recurrent_layer_multiplies_its_state_once_a_step_and_each_step_waits_for_the_last():
    x, w, state = counting((N, D), (D, D), (1, D))
    for row in x:
        state = np.tanh(state @ w + row)
    kind = by_name()["recurrent"]
    assert kind.multiply_adds == multiply_adds()
    assert kind.sequential == kind.path == len(products)


def test_a_convolutional_layer_multiplies_each_position_once_for_each_place_of_the_kernel():
    x, kernel = counting((N, D), (K, D, D))
    padded = np.concatenate([np.zeros((K - 1, D)), x]).view(Counted)
    sum(padded[at : at + N] @ kernel[at] for at in range(K))
    assert by_name()["convolutional"].multiply_adds == multiply_adds()


def test_restricted_self_attention_meets_r_keys_a_query():
    q, k = counting((N, D), (N + R - 1, D))
    for i in range(N):
        formula.dot_score(q[i : i + 1], k[i : i + R])
    assert by_name()["restricted"].multiply_adds == multiply_adds()


def test_seen_over_all_positions_restricted_is_self_attention():
    kinds = by_name(r=N)
    assert kinds["restricted"].multiply_adds == kinds["self-attention"].multiply_adds
    assert kinds["restricted"].path == kinds["self-attention"].path == 1
    assert [kind.name for kind in cost.kinds(N, D)] == ["self-attention", "recurrent", "convolutional"]


# ---- the longest path: how many layers until the last position hears the first ------------------------------


def layers_until_heard(links):
    """Layers, each linking positions by its (n, n) matrix, until the last position hears the first."""
    heard = np.eye(len(links[0]), dtype=bool)
    for count, link in enumerate(links, 1):
        heard = link.astype(int) @ heard > 0
        if heard[-1, 0]:
            return count
    raise AssertionError("it never hears it")


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("n", [2, 9, 10, 27, 28, 100])
def test_dilated_convolutions_span_n_positions_in_log_k_n_layers(n, k):
    behind = np.arange(n)[:, None] - np.arange(n)
    links = [(behind >= 0) & (behind % k**at == 0) & (behind < k ** (at + 1)) for at in range(8)]
    assert by_name(n, k=k, r=1)["convolutional"].path == layers_until_heard(links)


@pytest.mark.parametrize(("n", "r"), [(27, 9), (100, 5), (100, 7), (64, 64)])
def test_r_neighbours_carry_a_word_over_n_positions_in_n_over_r_layers_when_they_lie_behind(n, r):
    # The first of r positions behind and the own one: n/r steps of r positions, the last one shorter.
    behind = np.arange(n)[:, None] - np.arange(n)
    steps = layers_until_heard([(behind >= 0) & (behind <= r)] * n)
    assert by_name(n, r=r)["restricted"].path in {steps, steps + 1}
    # Centred on the query half of them lie ahead, and it takes about twice as many: the order is the same.
    centred = layers_until_heard([abs(behind) <= max(r // 2, 1)] * n)
    assert 1 <= centred / by_name(n, r=r)["restricted"].path <= 2.5


# ---- where the order flips ----------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [2, 64, 768])
@pytest.mark.parametrize("k", [2, 3, 7])
def test_the_order_flips_where_it_is_said_to(d, k):
    recurrent, convolutional = cost.flips(d, k)
    assert (recurrent.n, convolutional.n) == (d, k * d)
    for flip in (recurrent, convolutional):
        before, at, after = (by_name(n, d, k, 1) for n in (flip.n - 1, flip.n, flip.n + 1))
        assert before[flip.below].multiply_adds < before[flip.above].multiply_adds
        assert at[flip.below].multiply_adds == at[flip.above].multiply_adds
        assert after[flip.below].multiply_adds > after[flip.above].multiply_adds


def test_self_attention_is_the_cheapest_of_three_for_sentences_and_patches_and_the_dearest_for_pixels():
    def order(n):
        return [kind.name for kind in sorted(cost.kinds(n, 768), key=lambda kind: kind.multiply_adds)]

    for n in (30, 14 * 14):
        assert order(n) == ["self-attention", "recurrent", "convolutional"]
    assert order(224 * 224) == ["recurrent", "convolutional", "self-attention"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cost.kinds(0, 8), "n must be a whole number of at least 1, got 0"),
        (lambda: cost.kinds(8, 8, k=1), "k must be a whole number of at least 2, got 1"),
        (lambda: cost.kinds(8, 8, r=9), "r must be at most n = 8, got 9"),
        (lambda: cost.flips(0), "d must be a whole number of at least 1, got 0"),
        (lambda: cost.dot(3, 3, 0), "d_k must be a whole number of at least 1, got 0"),
        (lambda: cost.additive(3, 3, 4, hidden=0), "hidden must be a whole number of at least 1, got 0"),
    ],
)
def test_sizes_that_make_no_sense_are_refused_by_name(make, message):
    with pytest.raises(ArgumentError, match=message):
        make()


# ---- additive beside dot ------------------------------------------------------------------------------------


def test_a_dot_score_is_one_product_of_matrices_and_nothing_else():
    q, k = counting((5, 4), (7, 4))
    scores = formula.dot_score(q, k)
    found = cost.dot(5, 7, 4)
    assert (found.multiply_adds, found.numbers) == (multiply_adds(), scores.size)
    assert (found.additions, found.tanhs) == (made["add"], made["tanh"]) == (0, 0)


@pytest.mark.parametrize(("d_q", "d_k", "hidden"), [(4, 4, 4), (3, 6, 10)])
def test_an_additive_score_takes_a_tanh_and_a_number_for_each_channel_of_each_pair(d_q, d_k, hidden):
    q, k, w_q, w_k, v = counting((5, d_q), (7, d_k), (d_q, hidden), (d_k, hidden), (hidden,))
    scores = formula.additive_score(q, k, w_q, w_k, v)
    found = cost.additive(5, 7, d_k, hidden, d_q)
    assert found.multiply_adds == multiply_adds()
    assert (found.additions, found.tanhs) == (made["add"], made["tanh"])
    assert found.numbers == scores.size + made["tanh"]


def test_additive_and_dot_are_alike_in_products_and_far_apart_in_memory():
    n, d = 1024, 64
    dot, additive = cost.dot(n, n, d), cost.additive(n, n, d)
    assert additive.multiply_adds / dot.multiply_adds == 1 + 2 * d / n
    assert additive.numbers / dot.numbers == 1 + d
    assert (additive.tanhs, dot.tanhs) == (n * n * d, 0)
