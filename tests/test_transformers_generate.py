"""Maps of a generation: each step's, over what its cache holds, as eager would give them, and never changed later."""

from __future__ import annotations

import itertools

import pytest
import torch
import transformers

import qkv
import zoo
from qkv.torch import join

ULP = 2.0**-23
LONG = 24  # a prompt beyond the windows, so long that k is copied, not the scores kept


def t5():
    config = transformers.T5Config(**zoo.THROUGH_QKV["t5"].size, eos_token_id=98)
    return zoo.scatter(transformers.T5ForConditionalGeneration(config))


def whisper():
    config = transformers.WhisperConfig(**zoo.THROUGH_QKV["whisper"].size)
    return zoo.scatter(transformers.WhisperForConditionalGeneration(config))


def prompt(length, side):
    ids = torch.randint(5, 90, (2, length), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[1, slice(None, 2) if side == "left" else slice(-2, None)] = 0
    return {"input_ids": ids, "attention_mask": mask}


def generate(model, way, taken, cache):
    model.set_attn_implementation(way)
    kept = {"use_cache": False} if cache is None else {"cache_implementation": cache}
    return model.generate(
        **taken, **kept, max_new_tokens=4, min_new_tokens=4, do_sample=False, output_attentions=True,
        output_logits=True, return_dict_in_generate=True,
    )  # fmt: skip


def steps_of(out):
    """Every map of a generation, with a name."""
    for name, value in out.items():
        if "attentions" in name and value is not None:
            steps = value if name != "encoder_attentions" else (value,)
            for (step, layers), layer in itertools.product(enumerate(steps), range(len(steps[0]))):
                yield (name, step, layer), layers[layer]


def assert_same_generation(ours, eager):
    assert torch.equal(ours.sequences, eager.sequences)
    for got, wanted in zip(ours.logits, eager.logits, strict=True):
        torch.testing.assert_close(got, wanted, rtol=0, atol=32 * ULP * float(wanted.abs().max()))
    weights, found = dict(steps_of(eager)), dict(steps_of(ours))
    assert found.keys() == weights.keys() and found
    for at, attention_map in found.items():
        assert isinstance(attention_map, qkv.AttentionMap), at
        off = (attention_map.dense() - weights[at]).abs().amax(-1) * zoo.visible(attention_map)
        assert off.max() <= 16 * ULP, at


CACHES = ["dynamic", "static", None]
DECODERS = ["llama", "mistral", "gemma2", "gpt_oss", "llama4_text"]


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("length", [zoo.LENGTH, LONG])
@pytest.mark.parametrize("name", DECODERS)
def test_the_steps_of_a_decoder_are_those_of_eager(name, length, cache):
    model, taken = zoo.build(name), prompt(length, "left")
    ours = generate(model, "qkv", taken, cache)  # compared when all is done, so a cache that was written to would show
    assert_same_generation(ours, generate(model, "eager", taken, cache))


@pytest.mark.filterwarnings("ignore:A decoder-only architecture is being used, but right-padding:UserWarning")
def test_padding_on_the_right_is_followed_too():
    model, taken = zoo.build("llama"), prompt(zoo.LENGTH, "right")
    assert_same_generation(generate(model, "qkv", taken, "dynamic"), generate(model, "eager", taken, "dynamic"))


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("cache", CACHES)
def test_the_steps_of_an_encoder_and_decoder_are_those_of_eager(cache, side):
    model, taken = t5(), prompt(zoo.LENGTH, side)
    assert_same_generation(generate(model, "qkv", taken, cache), generate(model, "eager", taken, cache))


@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_whisper_stacks_the_weights_itself_and_its_maps_are_seen_by_watching(cache):
    model = whisper()
    taken = {
        "input_features": torch.randn(2, 80, 40, generator=torch.Generator().manual_seed(2)),
        "decoder_input_ids": torch.ones(2, 1, dtype=torch.long), "suppress_tokens": None, "begin_suppress_tokens": None,
    }  # fmt: skip
    eager = generate(model, "eager", taken, cache)
    with qkv.transformers.watch(model) as seen:
        ours = generate(model, "qkv", taken, cache)
    for wanted, got in zip(eager.cross_attentions, ours.cross_attentions, strict=True):
        for layer, (their, our) in enumerate(zip(wanted, got, strict=True)):
            torch.testing.assert_close(our, their, rtol=0, atol=16 * ULP)
            name = f"model.decoder.layers.{layer}.encoder_attn"
            first = next(call.map for call in seen.calls if call.name == name)
            torch.testing.assert_close(first.dense(), eager.cross_attentions[0][layer], rtol=0, atol=16 * ULP)


def test_one_query_keeps_its_scores_and_many_keep_copies_of_q_and_k():
    model, taken = zoo.build("llama"), prompt(LONG, "left")
    out = generate(model, "qkv", taken, "static")
    kinds = [type(step[0]._problem.score).__name__ for step in out.attentions]
    assert kinds == ["Dot", "_Kept", "_Kept", "_Kept"]
    cells = sum(tensor.numel() for tensor in (out.attentions[1][0]._problem.q, out.attentions[1][0]._problem.k))
    assert cells <= 2 * 4 * 28 + 28 * 5  # the scores and the digits of 28 keys, where k has 2 · 2 · 28 · 8


def test_beams_are_followed():
    model, taken = zoo.build("llama"), prompt(zoo.LENGTH, "left")
    outs = {}
    for way in ("eager", "qkv"):
        model.set_attn_implementation(way)
        outs[way] = model.generate(**taken, max_new_tokens=3, num_beams=2, do_sample=False)
    assert torch.equal(outs["eager"], outs["qkv"])


def test_the_steps_join_into_one_map_where_no_key_was_dropped():
    model, taken = zoo.build("gemma2"), prompt(zoo.LENGTH, "left")
    out = generate(model, "qkv", taken, "dynamic")
    whole = join([step[1] for step in out.attentions])  # layer 1 has no window
    assert whole.shape == (2, 4, 10, 10)
    with torch.no_grad():
        mask = torch.nn.functional.pad(taken["attention_mask"], (0, 3), value=1)
        once = model(input_ids=out.sequences[:, :-1], attention_mask=mask, output_attentions=True).attentions[1]
    torch.testing.assert_close(whole.dense(), once.dense(), rtol=0, atol=16 * ULP)
    torch.testing.assert_close(whole.entropy(), once.entropy(), rtol=0, atol=64 * ULP)
    with pytest.raises(qkv.ShapeError, match="map 1 sees keys up to 3; expected up to 7"):
        join([step[0] for step in out.attentions])
