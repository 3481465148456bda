"""Maps recorded from a running model: detached, before dropout, and joined over the steps of a generation."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

import qkv
import zoo
from qkv.torch import join, record


def _model(**size):
    model = zoo.build("llama", **size)
    model.set_attn_implementation("qkv")
    return model


# B154: dvgodoy/PyTorchStepByStep#23
def test_a_recorded_map_keeps_no_graph_and_no_input():
    q, k = (torch.randn(1, 1, 3, 4, requires_grad=True) * 2 for _ in range(2))
    kept = record(q, k)
    assert not kept.requires_grad and not kept.dense().requires_grad
    assert kept.dense().sum().grad_fn is None and q.grad_fn is not None
    inputs = [weakref.ref(q), weakref.ref(k)]
    del q, k
    gc.collect()
    assert [ref() for ref in inputs] == [None, None] and kept.shape == (1, 1, 3, 3)


def test_the_maps_of_a_model_do_not_keep_its_activations():
    model, hidden = _model(), []
    model.model.layers[1].register_forward_pre_hook(lambda _, args: hidden.append(weakref.ref(args[0])))
    with torch.no_grad():
        maps = model(**zoo.inputs("llama"), output_attentions=True).attentions
    gc.collect()
    assert hidden[0]() is None and len(maps) == 2 and not maps[0].dense().requires_grad


# B196: huggingface/transformers#31468
@pytest.mark.parametrize("dropout", [0.5, 0.0])
def test_in_training_mode_rows_sum_to_one_or_the_mode_is_named(dropout):
    model = _model(attention_dropout=dropout).train()
    taken = {"input_ids": zoo.inputs("llama")["input_ids"], "output_attentions": True}
    with torch.no_grad():
        if dropout:
            with pytest.raises(qkv.ArgumentError, match=r"is in training mode, where dropout \(0\.5\)"):
                model(**taken)
            model.eval()
        for attention_map in model(**taken).attentions:
            torch.testing.assert_close(attention_map.dense().sum(-1), torch.ones(2, 4, 7))


# B197: jessevig/bertviz#131
@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_the_maps_of_the_steps_of_a_generation_join_into_one(cache):
    model, ids = _model(), zoo.inputs("llama")["input_ids"][:1, :4]
    out = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=3, min_new_tokens=3, do_sample=False,
        cache_implementation=cache, output_attentions=True, return_dict_in_generate=True,
    )  # fmt: skip
    steps = [layers[1] for layers in out.attentions]
    if cache == "dynamic":
        assert [step.shape[-2:] for step in steps] == [(4, 4), (1, 5), (1, 6)]
    whole = join(steps)
    assert whole.shape == (1, 4, 6, 6) and not whole.dense().triu(1).any()
    with torch.no_grad():
        once = model(out.sequences[:, :6], output_attentions=True).attentions[1]
    torch.testing.assert_close(whole.dense(), once.dense(), rtol=0, atol=1e-6)
    torch.testing.assert_close(whole.entropy(), once.entropy(), rtol=0, atol=1e-5)
