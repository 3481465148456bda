"""The toy layer: who finds whom in which slice, and that all head counts are the same four matrices."""

import numpy as np
import pytest

import qkv
from qkv import formula, toy
from qkv.errors import ArgumentError

THE, CAT, SAT, ON, THE_2, MAT, BECAUSE, IT = range(8)
WORD, REFERENCE, PREDICATES, PHRASE = range(4)
PHRASES = ([THE, CAT], [SAT], [ON, THE_2, MAT], [BECAUSE, IT])


@pytest.fixture(scope="module")
def maps():
    return {n_heads: np.asarray(toy.map(n_heads)) for n_heads in toy.HEADS}


def dots(n_heads):
    """q·k of every head before any scale, (n_heads, 8, 8), and of the full width, (8, 8)."""
    q, k, _ = toy.layer(n_heads).project(toy.x())
    return formula.dot_score(q, k), formula.dot_score(formula.merge(q), formula.merge(k))


# ---- what the sentence shows -------------------------------------------------------------------------------


def test_the_tokens_are_the_eight_of_the_sentence():
    assert " ".join(toy.TOKENS) == "the cat sat on the mat because it"
    assert toy.x().shape == (8, 16)


@pytest.mark.parametrize("n_heads", toy.HEADS)
def test_the_row_of_it_peaks_on_cat_at_every_number_of_heads(maps, n_heads):
    head = n_heads // 4  # the slice of references, or the one it is part of
    row = maps[n_heads][head, IT]
    assert row.argmax() == CAT
    assert row[CAT] > 3 * np.delete(row, CAT).max()


def test_repeated_words_find_each_other_in_one_slice(maps):
    slice_ = maps[4][WORD]
    for i, token in enumerate(toy.TOKENS):
        copies = [j for j, other in enumerate(toy.TOKENS) if other == token]
        assert np.flatnonzero(slice_[i] == slice_[i].max()).tolist() == copies
    assert slice_[THE, THE_2] == slice_[THE_2, THE] == slice_[THE, THE] > 0.3


def test_the_pronoun_finds_its_noun_in_another(maps):
    row = maps[4][REFERENCE, IT]
    assert row[CAT] > 0.9
    assert row.argsort()[-2] == MAT  # the other noun is the second guess


def test_predicates_find_their_nouns_in_a_third(maps):
    slice_ = maps[4][PREDICATES]
    assert slice_[SAT].argmax() == CAT
    assert slice_[ON].argmax() == MAT
    assert min(slice_[SAT, CAT], slice_[ON, MAT]) > 0.7
    assert sorted(slice_[BECAUSE].argsort()[-2:]) == [SAT, IT]


def test_words_of_a_phrase_find_each_other_in_the_fourth(maps):
    for phrase in PHRASES:
        inside = maps[4][PHRASE][np.ix_(phrase, phrase)]
        outside = np.delete(maps[4][PHRASE][phrase], phrase, axis=1)
        assert np.ptp(inside) == 0
        assert inside.min() > 5 * outside.max()


def test_it_looks_for_cat_and_cat_does_not_look_back(maps):
    for n_heads in toy.HEADS:
        assert maps[n_heads][:, CAT, IT].max() <= 1 / 8


def test_a_token_that_asks_nothing_in_a_slice_looks_everywhere_alike(maps):
    asking = {REFERENCE: [THE, THE_2, IT], PREDICATES: [SAT, ON, BECAUSE]}
    for slice_, tokens in asking.items():
        silent = np.delete(maps[4][slice_], tokens, axis=0)
        assert silent == pytest.approx(1 / 8, rel=1e-15)


def test_the_weights_are_decided_and_none_is_all_or_nothing(maps):
    for weights in maps.values():
        assert weights.min() > 0 and weights.max() < 0.99
    assert maps[4].max(axis=-1).max(axis=-1) == pytest.approx([0.58, 0.92, 0.74, 0.51], abs=0.005)


def test_eight_heads_know_half_the_words_each(maps):
    known = [{toy.TOKENS[i] for i in range(8) if np.ptp(maps[8][head, i]) > 0} for head in (0, 1)]
    assert known == [{"the", "cat", "mat", "because"}, {"sat", "on", "it"}]


def test_temperature_goes_from_the_loudest_key_to_an_eighth_for_each():
    cold, hot = np.asarray(toy.map(4, 0.01))[REFERENCE, IT], np.asarray(toy.map(4, 1e6))
    assert cold == pytest.approx(np.eye(8)[CAT], abs=1e-12)
    assert hot == pytest.approx(1 / 8, rel=1e-4)


# ---- how it is built ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_heads", toy.HEADS)
def test_the_full_q_k_is_exactly_the_sum_of_the_slices(n_heads):
    slices, full = dots(n_heads)
    assert slices.shape == (n_heads, 8, 8)
    assert np.array_equal(slices.sum(axis=0), full)
    assert np.array_equal(full, dots(1)[0][0])


@pytest.mark.parametrize("n_heads", toy.HEADS)
def test_the_layer_is_the_formula_of_many_heads_with_the_same_parameters(n_heads):
    layer, x = toy.layer(n_heads), toy.x()
    matrices = [layer.w_q, layer.w_k, layer.w_v, layer.w_o]
    assert layer(x) == pytest.approx(formula.multi_head(x, *matrices, n_heads), rel=1e-13, abs=1e-14)
    for one, other in zip(matrices, vars(toy.layer(1)).values(), strict=False):
        assert np.array_equal(one, other)
    assert sum(w.size for w in matrices) == 4 * 16**2


def test_every_number_is_a_small_whole_one():
    layer = toy.layer()
    for array in (toy.x(), layer.w_q, layer.w_k, layer.w_v, layer.w_o):
        assert np.array_equal(array, array.round())
        assert abs(array).max() <= 3


def test_every_channel_of_q_and_k_is_one_question_with_one_number_in_each_matrix():
    layer = toy.layer()
    for c, question in enumerate(toy.QUESTIONS):
        for w, feature, number in (
            (layer.w_q, question.asks, question.ask),
            (layer.w_k, question.answers, question.answer),
        ):
            assert np.flatnonzero(w[:, c]).tolist() == [toy.FEATURES.index(feature)]
            assert w[toy.FEATURES.index(feature), c] == number


def test_every_feature_is_had_and_every_question_asked_and_answered():
    assert (abs(toy.x()).max(axis=0) == 1).all()
    q, k, _ = toy.layer(1).project(toy.x())
    assert (abs(q[0]).max(axis=0) > 0).all()
    assert (abs(k[0]).max(axis=0) > 0).all()
    assert set(toy.FEATURES) == {each for q in toy.QUESTIONS for each in (q.asks, q.answers)}


def test_after_four_heads_the_row_of_it_reads_cat_in_the_slice_of_references():
    words = toy.x()[:, :4]
    found = toy.layer(4)(toy.x())[IT].reshape(4, 4)
    assert (words @ found[REFERENCE]).argmax() == CAT
    assert (words @ found[WORD]).argmax() == IT
    # One softmax has to settle: cat is in it, and half as much.
    assert toy.layer(1)(toy.x())[IT, 1] < found[REFERENCE, 1] / 2


def test_permuting_the_tokens_permutes_the_rows_and_nothing_knows_the_order():
    order = np.random.default_rng(0).permutation(8)
    moved = np.asarray(toy.layer(4).map(toy.x()[order]))
    assert moved == pytest.approx(np.asarray(toy.map(4))[:, order][:, :, order], rel=1e-12)


def test_each_head_has_a_name_of_its_own():
    for n_heads in toy.HEADS:
        assert len(set(toy.names(n_heads))) == n_heads
    assert toy.names(4) == toy.SLICES


def test_the_arrays_are_the_callers_own():
    toy.x()[:] = 7
    toy.layer(4).w_q[:] = 7
    assert toy.x().max() == 1
    assert toy.layer(4).w_q.max() == 3


@pytest.mark.parametrize("n_heads", [0, 3, 16, True])
def test_another_number_of_heads_is_refused(n_heads):
    for call in (toy.layer, toy.map, toy.names):
        with pytest.raises(ArgumentError, match="one of 1, 2, 4, 8"):
            call(n_heads)


def test_a_temperature_of_zero_is_refused():
    with pytest.raises(qkv.QKVError, match="temperature"):
        toy.map(4, 0.0)
