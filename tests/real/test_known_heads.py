"""Heads that are known to do one thing do it in the maps of a trace, and the figures of the table say so."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

from qkv import measures  # noqa: E402
from qkv.tracing import table, trace  # noqa: E402
from real import catalogue  # noqa: E402


def of(name):
    chosen = [each for each in catalogue.MODELS if each.name == name]
    return pytest.mark.parametrize("real", chosen, indirect=True, ids=[name])


@pytest.fixture(scope="module")
def inputs(real, model):
    return real.inputs(real.folder())


@pytest.fixture(scope="module")
def seen(model, inputs):
    return trace(model, inputs)


@of("smollm2")
def test_head_18_6_of_smollm2_is_its_best_induction_head(seen, inputs):
    heads = list(table(seen, inputs["input_ids"].numpy()))
    assert len(heads) == 30 * 9
    best = max(heads, key=lambda head: head.weight["induction"])
    assert (best.layer, best.head) == (18, 6)
    assert best.weight["induction"] == pytest.approx(0.90, abs=0.03)
    assert best.value_weighted["induction"] > 0.9


@of("smollm2")
def test_heads_of_a_group_share_keys_and_differ_in_weights(seen):
    assert seen.values[0].shape[1] == 3
    weights = seen.maps[0][0].dense()
    assert not torch.equal(weights[0], weights[1])
    assert seen.value_norms(0).shape == (1, 9, 2 * catalogue.PERIOD + 1)


@of("minilm")
def test_head_0_2_of_minilm_looks_at_the_previous_token(seen):
    heads = {(each.layer, each.head): each for each in table(seen)}
    assert len(heads) == 6 * 12
    assert heads[0, 2].weight["previous"] > 0.99


@of("minilm")
def test_in_head_5_11_of_minilm_it_looks_at_the_cat(seen, inputs, real):
    tokens = transformers.AutoTokenizer.from_pretrained(real.folder()).convert_ids_to_tokens(inputs["input_ids"][0])
    weight = seen.maps[5][0, 11, tokens.index("it"), tokens.index("cat")]
    assert float(weight) == pytest.approx(0.712, abs=1e-3)


@of("rxnmapper")
def test_head_10_5_of_rxnmapper_finds_the_atoms_of_the_product_among_the_reactants(seen, inputs, real):
    """5 of 6: the ester's own O goes to the acid's, where the usual mechanism takes the alcohol's."""
    tokens = transformers.AutoTokenizer.from_pretrained(real.folder()).convert_ids_to_tokens(inputs["input_ids"][0])
    weights = seen.maps[10][0, 5].double().numpy()
    arrow = tokens.index(">>")
    atoms = [at for at, token in enumerate(tokens) if token in {"C", "O"}]
    product, reactants = ([at for at in atoms if (at > arrow) is after] for after in (True, False))
    both_ways = weights[np.ix_(product, reactants)] + weights[np.ix_(reactants, product)].T
    found = [reactants[best] for best in both_ways.argmax(axis=-1)]
    #         C  C  O  O     C   C     CC(=O)O.OCC>>CC(=O)OCC: where each atom of the ester stands among the reactants
    expected = [1, 2, 5, 9, 10, 11]
    assert sum(a == b for a, b in zip(found, expected, strict=True)) == 5
    assert found[3] == 7


@of("rxnmapper")
def test_the_twelve_turns_of_one_shared_layer_have_names_of_their_own(seen):
    assert len(set(seen.names)) == 12
    assert {name.partition("[")[0] for name in seen.names} == {seen.names[0].removesuffix("[0]")}


@of("dinov2")
def test_in_the_last_layer_cls_sees_the_disc_and_head_3_the_wall(seen, inputs):
    on_patches = seen.maps[11][0, :, 0, 1:].double().numpy()  # (6, 81), the row of CLS
    red = inputs["pixel_values"][0, 0].reshape(9, 14, 9, 14).mean(dim=(1, 3)).flatten().numpy()
    disc = red > 1
    ratio = on_patches[:, disc].mean(axis=-1) / on_patches[:, ~disc].mean(axis=-1)
    assert (np.delete(ratio, 3) > 2).all()
    assert ratio[3] < 0.2


@of("dinov2")
def test_heads_of_a_picture_look_as_far_as_the_picture_is_wide(seen):
    on_grid = measures.distance(grid=(9, 9), class_tokens=1, patch=14)
    means = [float(each.measure(on_grid)[0].mean[0, :, 1:].mean()) for each in seen.maps]
    assert all(20 < mean < 126 for mean in means)


@of("whisper")
def test_cross_attention_has_a_row_for_each_word_and_a_key_for_each_position_of_the_sound(seen, inputs):
    words = inputs["decoder_input_ids"].shape[1]
    shapes = {name.rpartition(".")[2]: each.shape for name, each in zip(seen.names, seen.maps, strict=True)}
    assert shapes == {"self_attn": (1, 8, words, words), "encoder_attn": (1, 8, words, catalogue.POSITIONS)}
    heads = list(table(seen))
    assert len(heads) == 18 * 8
    assert all(head.weight["entropy"] is not None for head in heads)
