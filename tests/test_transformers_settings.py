"""What a model says to its attention is used, known to change nothing, or refused by name; nothing is guessed."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import torch
import transformers
from torch import nn
from transformers.models.llama import modeling_llama

import qkv
import zoo
from qkv.transformers._interface import attention
from qkv.transformers._mask import model_mask
from qkv.transformers._settings import NO_MATTER, REFUSED, USED

TAKEN = {"attention_mask", "query", "key", "value"}


def run(name, way, model=None, **more):
    model = model or zoo.build(name)
    model.set_attn_implementation(way)
    with torch.no_grad():
        return model(**(zoo.inputs(name) | more), output_attentions=True)


def logits(name, **more):
    """Logits of eager and of qkv."""
    model = zoo.build(name)
    return [run(name, way, model, **more).logits for way in ("eager", "qkv")]


def tensors(n_q=3, n_k=3):
    return [torch.randn(1, 2, n, 4, generator=torch.Generator().manual_seed(n)) for n in (n_q, n_k, n_k)]


def test_an_attention_argument_that_nobody_knows_is_refused_by_name():
    with pytest.raises(qkv.ArgumentError, match=r"attention argument 'sharpness' of LlamaAttention \(layer 0\)"):
        run("llama", "qkv", sharpness=2.0)


def test_a_known_argument_that_cannot_be_had_is_refused_unless_it_is_none():
    with pytest.raises(qkv.ArgumentError, match=r"cu_seq_lens_q of LlamaAttention.*packs sequences for flash"):
        run("llama", "qkv", cu_seq_lens_q=torch.tensor([0, 7]))
    for name in REFUSED:
        attention(nn.Identity(), *tensors(), None, is_causal=False, **{name: None})
        with pytest.raises(qkv.ArgumentError, match=f"{name} of Identity can't be had"):
            attention(nn.Identity(), *tensors(), None, is_causal=False, **{name: 1})


def calls(text, function):
    """Every call of a function in a source, parsed: cheaper than to parse all of transformers."""
    for start in (found.start() for found in re.finditer(rf"(?<![\w.]){function}\(", text)):
        for end in (found.end() for found in re.finditer(r"\)", text[start : start + 2000])):
            try:
                yield ast.parse(text[start : start + end], mode="eval").body
            except SyntaxError:  # a bracket within the call
                continue
            break


def test_every_argument_that_a_model_of_this_transformers_passes_is_known():
    passed = set()
    for path in sorted(Path(transformers.__file__).parent.glob("models/*/modeling_*.py")):
        for call in calls(path.read_text("utf-8"), "attention_interface"):
            passed |= {each.arg for each in call.keywords if each.arg}
    assert {"scaling", "dropout", "softcap", "s_aux", "indices"} <= passed
    assert passed <= USED | NO_MATTER | REFUSED.keys() | TAKEN


def test_every_keyword_of_a_forward_is_known():
    told = transformers.utils.TransformersKwargs.__annotations__.keys()
    assert told <= USED | NO_MATTER | REFUSED.keys()


def test_a_family_that_computes_something_of_its_own_is_refused(monkeypatch):
    def eager_attention_forward(module, query, key, value, attention_mask, scaling, dropout=0.0, **settings):
        return usual(module, query * 1.1, key, value, attention_mask, scaling, dropout, **settings)

    usual = modeling_llama.eager_attention_forward
    assert run("llama", "qkv").logits.isfinite().any()
    monkeypatch.setattr(modeling_llama, "eager_attention_forward", eager_attention_forward)
    with pytest.raises(qkv.ArgumentError, match=r"LlamaAttention \(layer 0\) computes something else from q, k and v"):
        run("llama", "qkv")


def test_a_family_whose_own_attention_cannot_be_tried_is_refused(monkeypatch):
    def eager_attention_forward(module, query, *others, **settings):
        raise RuntimeError

    monkeypatch.setattr(modeling_llama, "eager_attention_forward", eager_attention_forward)
    with pytest.raises(qkv.ArgumentError, match="computes something else"):
        run("llama", "qkv")


def test_dropout_in_training_mode_is_refused_by_name():
    model = zoo.build("llama", attention_dropout=0.5).train()
    with pytest.raises(qkv.ArgumentError, match=r"LlamaAttention \(layer 0\) is in training mode.*model\.eval\(\)"):
        run("llama", "qkv", model)
    sums = run("llama", "qkv", model.eval()).attentions[0].dense().sum(-1)
    torch.testing.assert_close(sums[0], torch.ones_like(sums[0]))


def test_training_mode_without_dropout_is_fine():
    sums = run("llama", "qkv", zoo.build("llama").train()).attentions[0].dense().sum(-1)
    torch.testing.assert_close(sums[0], torch.ones_like(sums[0]))


def test_gradients_are_refused_with_a_way_out():
    model = zoo.build("llama")
    model.set_attn_implementation("qkv")
    with pytest.raises(qkv.ArgumentError, match=r"query of LlamaAttention \(layer 0\) requires grad.*no_grad\(\)"):
        model(**zoo.inputs("llama"))
    q, k, v = tensors()
    with pytest.raises(qkv.ArgumentError, match="s_aux of Identity requires grad"):
        attention(nn.Identity(), q, k, v, s_aux=torch.zeros(2, requires_grad=True))
    with torch.inference_mode():
        assert isinstance(model(**zoo.inputs("llama"), output_attentions=True).attentions[1], qkv.AttentionMap)


def test_registering_twice_is_registering_once():
    qkv.transformers.register()
    qkv.transformers.register()
    assert "qkv" in transformers.AttentionInterface() and "qkv" in transformers.AttentionMaskInterface()


def test_the_mask_is_registered_with_the_attention_so_that_no_mask_is_lost():
    attentions = run("mistral", "qkv").attentions
    assert "mask=(window(3, None) & causal()) & dense(bool[2, 1, 1, 7])" in repr(attentions[0])
    assert not attentions[0].dense().triu(1).any() and not attentions[0][1, :, :, :2].any()


@pytest.mark.parametrize("name", ["llama", "gemma2", "gpt_oss"])
def test_a_float_mask_of_the_user_is_a_bias(name):
    n = zoo.LENGTH
    mask = torch.randn(2, 1, n, n, generator=torch.Generator().manual_seed(3))
    mask[:, :, :, 5:] = -torch.inf
    mask[:, :, 4] = torch.finfo(torch.float32).min  # a finite number hides nothing: this row is even, as eager has it
    eager, ours = logits(name, attention_mask=mask)
    torch.testing.assert_close(ours, eager, rtol=0, atol=2e-6 * float(eager.abs().max()))
    assert "bias=dense(float32[2, 1, 7, 7])" in repr(run(name, "qkv", attention_mask=mask).attentions[0])


def test_a_bool_mask_of_the_user_is_a_mask():
    mask = torch.rand(2, 1, 7, 7, generator=torch.Generator().manual_seed(4)) < 0.6
    mask |= torch.eye(7, dtype=torch.bool)
    eager = run("llama", "eager", attention_mask=torch.where(mask, 0.0, -torch.inf)).logits
    ours = run("llama", "qkv", attention_mask=mask)
    torch.testing.assert_close(ours.logits, eager, rtol=0, atol=2e-6)
    assert not ours.attentions[0].dense()[~mask.expand(2, 4, 7, 7)].any()


def test_a_mask_that_is_neither_is_refused():
    with pytest.raises(qkv.DTypeError, match="mask has dtype int64"):
        run("llama", "qkv", attention_mask=torch.ones(2, 1, 7, 7, dtype=torch.long))
    with pytest.raises(qkv.ShapeError, match=r"attention_mask of Identity is Tensor of shape \(3, 3\); expected four"):
        attention(nn.Identity(), *tensors(), torch.ones(3, 3))
    mask = model_mask(1, 3, 4)
    with pytest.raises(qkv.ShapeError, match="the mask of Identity has shape"):
        attention(nn.Identity(), *tensors(), mask)


def test_a_mask_and_a_position_bias_are_added():
    q, k, v = tensors()
    mask, bias = torch.randn(1, 1, 3, 3), torch.randn(1, 2, 3, 3)
    out, attention_map = attention(nn.Identity(), q, k, v, mask, scaling=0.3, position_bias=bias)
    wanted = (0.3 * q @ k.mT + mask + bias).softmax(-1)
    torch.testing.assert_close(attention_map.dense(), wanted)
    torch.testing.assert_close(out, (wanted @ v).transpose(1, 2))
    assert out.shape == (1, 3, 2, 4) and out.is_contiguous()


class Causal(nn.Identity):
    is_causal = True


class Open(nn.Identity):
    is_causal = False


@pytest.mark.parametrize(
    ("module", "given", "n_q", "causal"),
    [
        (Causal(), None, 3, True), (Open(), None, 3, False), (Causal(), False, 3, False), (Open(), True, 3, True),
        (nn.Identity(), None, 3, True), (Causal(), None, 1, False), (Causal(), True, 1, False),
    ],
)  # fmt: skip
def test_without_a_mask_the_argument_is_causal_wins_over_the_module(module, given, n_q, causal):
    q, k, v = tensors(n_q, 4)
    _, attention_map = attention(module, q, k, v, None, is_causal=given)
    wanted = qkv.attend(q, k, causal=qkv.masks.causal(offset=0) if causal else None)
    torch.testing.assert_close(attention_map.dense(), wanted.dense())


def test_a_window_without_a_mask_is_refused():
    with pytest.raises(qkv.ArgumentError, match="Causal has a sliding window and no mask came"):
        attention(Causal(), *tensors(), None, sliding_window=2)


def test_the_values_may_have_another_dtype():
    q, k, v = tensors()
    out, _ = attention(Open(), q, k, v.half())
    assert out.dtype == torch.float16
    torch.testing.assert_close(out.float(), attention(Open(), q, k, v)[0], rtol=1e-2, atol=1e-2)


def test_a_compiled_model_gives_its_maps_too():
    model = zoo.build("llama")
    model.set_attn_implementation("qkv")
    compiled = torch.compile(model, backend="eager")
    with torch.no_grad(), qkv.transformers.watch(model) as seen:
        got = compiled(**zoo.inputs("llama")).logits
    kept = zoo.padding("left").bool()
    torch.testing.assert_close(got[kept], run("llama", "eager", model).logits[kept], rtol=0, atol=1e-6)
    assert len(seen.calls) == 2
