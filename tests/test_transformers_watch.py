"""Watching a model says which of its modules attended, in which order, and which did so by themselves."""

from __future__ import annotations

import pytest
import torch

import qkv
import zoo
from qkv.transformers import Call, _watch, watch


def through_qkv(name):
    model = zoo.build(name)
    model.set_attn_implementation("qkv")
    return model


def see(name, model=None, **more):
    model = model or through_qkv(name)
    with watch(model) as seen, torch.no_grad():
        model(**zoo.inputs(name), **more)
    return seen


def test_calls_are_named_as_in_the_model():
    seen = see("llama")
    assert [call.name for call in seen.calls] == ["model.layers.0.self_attn", "model.layers.1.self_attn"]
    assert all(isinstance(call, Call) and call.forward == call.turn == 0 for call in seen.calls)
    assert [call.map.shape for call in seen.calls] == [(2, 4, 7, 7)] * 2
    assert repr(seen) == "Seen(LlamaForCausalLM, 1 forwards, 2 calls)" and seen.silent == ()


def test_one_module_that_stands_for_many_layers_is_told_apart_by_turns():
    assert [(call.name, call.turn) for call in see("albert").calls] == [
        ("encoder.albert_layer_groups.0.albert_layers.0.attention", turn) for turn in range(2)
    ]
    assert [(call.name, call.turn) for call in see("diffllama").calls] == [
        (f"model.layers.{layer}.self_attn", turn) for layer in range(2) for turn in range(2)
    ]


def test_each_run_of_the_model_counts_its_turns_anew():
    model = through_qkv("llama")
    with watch(model) as seen:
        model.generate(**zoo.inputs("llama"), max_new_tokens=3, min_new_tokens=3, do_sample=False)
    assert seen.forwards == 3
    assert [(call.forward, call.turn) for call in seen.calls] == [(step, 0) for step in range(3) for _ in range(2)]
    assert [call.map.shape[-2:] for call in seen.calls[::2]] == [(7, 7), (1, 8), (1, 9)]


def test_layers_without_attention_do_not_shift_the_names():
    assert [call.name for call in see("qwen3_next").calls] == ["model.layers.3.self_attn"]


def test_encoder_decoder_and_cross_attention_are_told_apart():
    names = [call.name for call in see("bart").calls]
    assert names[:3] == ["encoder.layers.0.self_attn", "encoder.layers.1.self_attn", "decoder.layers.0.self_attn"]
    assert names[3] == "decoder.layers.0.encoder_attn"


def test_a_module_that_attends_by_itself_beside_others_is_silent():
    seen = see("siglip")
    assert len(seen.calls) == 4 and seen.silent == ("vision_model.head.attention",)
    assert "silent: vision_model.head.attention" in repr(seen)


def test_a_model_that_was_not_set_to_qkv_is_told_how():
    model = zoo.build("llama")
    model.set_attn_implementation("eager")
    with pytest.raises(qkv.ArgumentError, match=r"is 'eager'\. Call model\.set_attn_implementation\(\"qkv\"\)"):
        see("llama", model)


def test_a_model_that_takes_the_name_and_ignores_it_is_told_of():
    with pytest.raises(qkv.ArgumentError, match=r"is 'qkv'\. The model has an attention of its own, or none"):
        see("sam_vision")


def test_a_block_in_which_nothing_ran_is_fine():
    with watch(through_qkv("llama")) as seen:
        pass
    assert seen.calls == [] and seen.forwards == 0


def test_watching_leaves_nothing_behind_even_after_an_error():
    model = through_qkv("llama")
    hooks = sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())
    with pytest.raises(qkv.ArgumentError, match="sharpness"):
        see("llama", model, sharpness=1.0)
    assert _watch._WATCHING.get() == ()
    assert hooks == sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())
    with pytest.raises(qkv.ArgumentError, match='expected "raise" or "tell"'), watch(model, silent="maybe"):
        pass


def test_two_can_watch_at_once():
    outer, inner = through_qkv("llama"), through_qkv("bert")
    with watch(outer, silent="tell") as both, torch.no_grad():
        with watch(inner) as one:
            inner(**zoo.inputs("bert"))
        outer(**zoo.inputs("llama"))
    assert len(one.calls) == 2 and all(call.name for call in one.calls)
    assert [bool(call.name) for call in both.calls] == [False, False, True, True]


def test_an_unfinished_module_counts_as_run():
    model = through_qkv("llama")
    with watch(model, silent="tell") as seen, torch.no_grad(), pytest.raises(qkv.ArgumentError):
        model(**zoo.inputs("llama"), sharpness=1.0)
    assert seen.silent == ("model.layers.0.self_attn",)
    with torch.no_grad():
        model(**zoo.inputs("llama"))
    assert seen.forwards == 1


def test_maps_are_recorded_only_where_somebody_may_keep_them(monkeypatch):
    recorded = []
    monkeypatch.setattr(
        "qkv.transformers._interface.record", lambda *args, **how: recorded.append(1) or qkv.torch.record(*args, **how)
    )
    model = through_qkv("llama")
    with torch.no_grad():
        model(**zoo.inputs("llama"))
        assert not recorded
        model(**zoo.inputs("llama"), output_attentions=True)
        assert len(recorded) == 2
        with watch(model):
            model(**zoo.inputs("llama"))
        assert len(recorded) == 4
        monkeypatch.delattr("transformers.utils.output_capturing._active_collector")
        q = torch.ones(1, 2, 3, 4)
        from qkv.transformers._interface import attention

        attention(model.model.layers[0].self_attn, q, q[:, :1], q[:, :1], scaling=1.0)
        assert len(recorded) == 5
