"""Any architecture of transformers gives the same outputs through qkv as by itself, and its weights as maps."""

from __future__ import annotations

import pytest
import torch

import qkv
import zoo

ULP = 2.0**-23
ROUNDINGS = 16  # of the largest output; 6.3 is the most that was seen, over some hundred operations


def both_ways(name, side):
    """The outputs of one model, eager and through qkv, and what it took."""
    model, taken = zoo.build(name), zoo.inputs(name, side)
    outs = []
    for way in ("eager", "qkv"):
        model.set_attn_implementation(way)
        with torch.no_grad():
            outs.append(model(**taken, output_attentions=True))
    return *outs, taken


def sides(name):
    """Left and right padding, where there is text to pad."""
    return ["left", "right"] if zoo.THROUGH_QKV[name].takes in {"text", "pair", "both"} else ["none"]


CASES = [(name, side) for name in zoo.THROUGH_QKV for side in sides(name)]


@pytest.mark.parametrize(("name", "side"), CASES, ids=lambda value: value)
def test_outputs_and_maps_are_those_of_eager_where_a_query_sees_a_key(name, side):
    eager, ours, taken = both_ways(name, side)
    for got, wanted in zip(zoo.outputs(ours), zoo.outputs(eager), strict=True):
        kept = taken.get("attention_mask", torch.ones(0)).bool()
        kept = kept if got.shape[:2] == kept.shape else torch.ones(got.shape[:2], dtype=torch.bool)
        atol = ROUNDINGS * ULP * float(wanted[kept].abs().max())
        torch.testing.assert_close(got[kept], wanted[kept], rtol=0, atol=atol)
    weights, found = dict(zoo.maps(eager)), dict(zoo.maps(ours))
    assert found.keys() == weights.keys() and found
    for at, attention_map in found.items():
        assert isinstance(attention_map, qkv.AttentionMap), at
        off = (attention_map.dense() - weights[at]).abs().amax(-1) * zoo.visible(attention_map)
        assert off.max() <= ROUNDINGS * ULP, at


def test_forty_nine_architectures_run_through_qkv_and_sixteen_past_it():
    assert (len(zoo.THROUGH_QKV), len(zoo.PAST_QKV)) == (49, 16)


@pytest.mark.parametrize("name", zoo.PAST_QKV)
def test_a_model_that_attends_by_itself_is_told_of(name):
    model = zoo.build(name)
    model.set_attn_implementation("qkv")
    attention = name != "mamba"
    told = pytest.raises(qkv.ArgumentError, match=rf"{type(model).__name__} ran and never called qkv")
    with told, qkv.transformers.watch(model) as seen, torch.no_grad():
        model(**zoo.inputs(name))
    assert not seen.calls and seen.forwards == 1 and bool(seen.silent) is attention
    with qkv.transformers.watch(model, silent="tell") as seen, torch.no_grad():
        model(**zoo.inputs(name))
    assert bool(seen.silent) is attention


def test_a_padded_query_gives_zeros_and_has_an_empty_row():
    model = zoo.build("llama")
    model.set_attn_implementation("qkv")
    attended = []
    model.model.layers[0].self_attn.o_proj.register_forward_pre_hook(lambda _, args: attended.append(args[0]))
    with torch.no_grad():
        first = model(**zoo.inputs("llama"), output_attentions=True).attentions[0]
    assert not attended[0][1, :2].any() and attended[0][1, 2:].all()
    assert not first[1, :, :2].any() and torch.isneginf(first[1].lse()[:, :2]).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", ["gemma2", "gpt_oss", "t5", "whisper"])
def test_sixteen_bit_models_keep_their_dtype(name, dtype):
    model = zoo.build(name).to(dtype)
    taken = {key: value.to(dtype) if value.is_floating_point() else value for key, value in zoo.inputs(name).items()}
    outs = {}
    for way in ("eager", "qkv"):
        model.set_attn_implementation(way)
        with torch.no_grad():
            outs[way] = model(**taken, output_attentions=True)
    ours, eager = (zoo.outputs(outs[way])[0] for way in ("qkv", "eager"))
    kept = zoo.padding("left").bool() if name in {"gemma2", "gpt_oss"} else slice(None)
    assert {attention_map.dtype for _, attention_map in zoo.maps(outs["qkv"])} == {ours.dtype} == {dtype}
    torch.testing.assert_close(ours[kept], eager[kept], rtol=0, atol=float(eager.abs().max()) / 32)
