"""Whole models: parameters, multiply-adds and caches against the real modules of transformers, and what is refused.

The modules are built on torch's meta device, which has shapes and no numbers, so that eight billion parameters fit.
"""

import inspect
import json
from dataclasses import replace

import pytest
import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig

from qkv import cost
from qkv.errors import ArgumentError, DTypeError

SMALL = {
    "bert": {"hidden_size": 12, "num_attention_heads": 3, "num_hidden_layers": 2, "intermediate_size": 20,
             "vocab_size": 31, "max_position_embeddings": 40, "type_vocab_size": 3},
    "gpt2": {"n_embd": 12, "n_head": 3, "n_layer": 2, "vocab_size": 31, "n_positions": 40},
    "vit": {"hidden_size": 12, "num_attention_heads": 3, "num_hidden_layers": 2, "intermediate_size": 20,
            "image_size": 12, "patch_size": 4, "num_channels": 3},
    "llama": {"hidden_size": 24, "num_attention_heads": 6, "num_key_value_heads": 2, "num_hidden_layers": 2,
              "intermediate_size": 20, "vocab_size": 31, "max_position_embeddings": 40},
}  # fmt: skip
SMALL |= dict.fromkeys(("mistral", "qwen2"), SMALL["llama"])
VARIANTS = [
    ("bert", {}), ("bert", {"is_decoder": True}),
    ("gpt2", {}), ("gpt2", {"n_inner": 17}), ("gpt2", {"tie_word_embeddings": False}),
    ("vit", {}), ("vit", {"qkv_bias": False}),
    ("llama", {}), ("llama", {"attention_bias": True, "mlp_bias": True}), ("llama", {"tie_word_embeddings": True}),
    ("llama", {"head_dim": 10}), ("llama", {"num_key_value_heads": 6}),
    ("mistral", {"sliding_window": None}), ("mistral", {"sliding_window": 4}), ("mistral", {"head_dim": 10}),
    ("qwen2", {}), ("qwen2", {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}),
]  # fmt: skip
BUILT_IN = [(None, name) for name in cost.MODELS]


def config_of(family, settings):
    """A config of transformers: of the small model of a family with these settings, or of a built-in one."""
    if family is None:
        return AutoConfig.for_model(**cost.MODELS[settings])
    return AutoConfig.for_model(family, **{**SMALL[family], **settings})


def real(config):
    """The module that the config is counted as, without numbers."""
    name, *without_pooler = cost.model(config).counted_as.split(" without ")
    with torch.device("meta"):
        return getattr(transformers, name)(config, **({"add_pooling_layer": False} if without_pooler else {})).eval()


def numbers(module, *, norms=True):
    kept = [each for each in module.modules() if norms or "Norm" not in type(each).__name__]
    return sum(p.numel() for p in {id(p): p for each in kept for p in each.parameters(recurse=False)}.values())


def attention_modules(module):
    """The outermost modules that are named for attention."""
    for child in module.children():
        if "Attention" in type(child).__name__:
            yield child
        else:
            yield from attention_modules(child)


# ---- parameters ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("family", "settings"), VARIANTS + BUILT_IN)
def test_parameters_are_those_of_the_real_module_in_all_and_in_each_attention_layer(family, settings):
    config = config_of(family, settings)
    module, found = real(config), cost.model(config)
    assert sum(found.parameters.values()) == numbers(module)
    layers = [numbers(each, norms=False) for each in attention_modules(module)]
    assert layers == [found.layer.parameters] * found.n_layers
    assert found.parameters["norms"] == numbers(module) - numbers(module, norms=False)


def test_the_built_in_models_have_the_sizes_that_are_known_of_them():
    totals = {name: sum(cost.model(name).parameters.values()) for name in cost.MODELS}
    assert totals == {
        "bert-base": 109_482_240, "gpt2": 124_439_808, "vit-b-16": 85_798_656, "llama-3-8b": 8_030_261_248,
    }  # fmt: skip
    assert cost.model("vit-b-16").positions == 14 * 14 + 1


PLAIN = (
    "bloom clip_vision_model codegen cohere2 ctrl dinov2 distilbert electra gemma gemma2 gemma3_text glm4 gpt_neox "
    "gptj gpt_oss granite mixtral mpnet olmo2 opt phi phi3 qwen3 roberta smollm3 stablelm starcoder2"
).split()


@pytest.mark.parametrize("family", PLAIN)
def test_the_matrices_of_other_families_are_found_from_the_sizes_in_their_configs(family):
    config = AutoConfig.for_model(family)
    found = cost.model(config, causal=True, biases="")
    with torch.device("meta"):
        module = transformers.AutoModel.from_config(config)
    matrices = [sum(p.numel() for p in each.parameters() if p.ndim == 2) for each in attention_modules(module)]
    assert matrices == [found.layer.parameters] * found.n_layers
    assert (found.counted_as, list(found.parameters), found.cost(5).multiply_adds) == (None, ["attention"], None)


# ---- multiply-adds ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("family", "settings"), VARIANTS)
def test_multiply_adds_are_those_that_torch_counts_in_the_real_module(family, settings):
    config = config_of(family, settings)
    config._attn_implementation = "eager"
    module, found = real(config), cost.model(config)
    n = found.positions if family == "vit" else 9
    with torch.device("meta"), torch.no_grad(), FlopCounterMode(display=False) as counter:
        if family == "vit":
            module(torch.zeros(2, 3, 12, 12))
        else:
            module(torch.zeros(2, n, dtype=torch.long))
    # Eager attention computes the hidden pairs as well.
    dense = replace(found, causal=False, windows=(None,) * found.n_layers).cost(n, batch=2)
    assert counter.get_total_flops() == 2 * dense.multiply_adds


def test_a_model_costs_its_layers_and_the_rest():
    found = cost.model("gpt2").cost(10, batch=3)
    layer = cost.layer(768, 12, biases="qkvo").cost(10, causal=True, batch=3)
    assert found.layers == (layer,) * 12
    assert found.attention == 12 * layer.multiply_adds
    assert found.multiply_adds == found.attention + found.other["feed-forward"] + found.other["logits"]
    assert found.weights_bytes == 12 * layer.weights_bytes


def test_steps_of_a_model_cost_together_what_one_pass_costs():
    found = cost.model("llama-3-8b")
    steps = [found.cost(1, cached=at) for at in range(20)]
    assert sum(step.multiply_adds for step in steps) == found.cost(20).multiply_adds


# ---- the cache ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("settings", [("llama", {}), ("mistral", {"sliding_window": 4}), ("llama", {"head_dim": 10})])
def test_the_cache_has_the_bytes_of_a_real_one_after_the_prompt_and_after_a_step(settings, dtype):
    config = config_of(*settings)
    torch.manual_seed(0)
    module = transformers.AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype)).eval()
    cache, found = transformers.DynamicCache(config=config), cost.model(config)
    # transformers 5.24 renames the argument; the name before it only warns until 5.40.
    name = "cache" if "cache" in inspect.signature(module.forward).parameters else "past_key_values"
    for n, cached in ((9, 0), (1, 9)):
        with torch.no_grad():
            module(torch.zeros(2, n, dtype=torch.long), **{name: cache}, use_cache=True)
        held = [tensor for layer in cache.layers for tensor in (layer.keys, layer.values)]
        real_bytes = sum(tensor.numel() * tensor.element_size() for tensor in held)
        assert found.cost(n, cached=cached, batch=2, dtype=dtype).kv_cache_bytes == real_bytes


def test_llama_3_8b_keeps_128_kib_a_token_and_a_gib_at_8192():
    found = cost.model("llama-3-8b")
    assert found.cost(1, dtype="bfloat16").kv_cache_bytes == 2**17
    assert found.cost(dtype="bfloat16").kv_cache_bytes == 2**30
    assert cost.model("bert-base").cost().kv_cache_bytes is None


@pytest.mark.parametrize(("family", "windows"), [("gemma3_text", {None, (4095, 0)}), ("gpt_oss", {None, (127, 0)})])
def test_windows_are_read_layer_by_layer(family, windows):
    config = AutoConfig.for_model(family)
    found = cost.model(config, causal=True, biases="")
    assert set(found.windows) == windows
    kinds = ["full_attention" if window is None else "sliding_attention" for window in found.windows]
    assert kinds == config.layer_types


# ---- configs: any form, nothing guessed ---------------------------------------------------------------------


@pytest.mark.parametrize(("family", "settings"), VARIANTS)
def test_a_config_its_mapping_and_its_file_are_the_same_model(family, settings, tmp_path):
    config = config_of(family, settings)
    config.save_pretrained(tmp_path)
    written = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert cost.model(config) == cost.model(config.to_dict()) == cost.model(written)


@pytest.mark.parametrize(("family", "switches"), [
    ("llama", ["attention_bias", "mlp_bias", "tie_word_embeddings"]), ("vit", ["qkv_bias"]), ("bert", ["is_decoder"]),
    ("gpt2", ["tie_word_embeddings"]), ("mistral", ["tie_word_embeddings"]),
])  # fmt: skip
def test_a_switch_that_a_config_leaves_out_has_the_default_of_its_class(family, switches):
    config = AutoConfig.for_model(family, **SMALL[family])
    without = {key: value for key, value in config.to_dict().items() if key not in switches}
    assert cost.model(without) == cost.model(config)


@pytest.mark.parametrize("name", cost.MODELS)
def test_a_size_that_is_taken_away_is_named(name):
    config = cost.MODELS[name]
    # Without it there is one key head for each query head: that is what leaving it out means.
    sizes = [key for key, value in config.items() if type(value) is int and key != "num_key_value_heads"]
    assert len(sizes) >= 5
    for key in sizes:
        if (name, key) == ("llama-3-8b", "max_position_embeddings"):
            continue  # rotary positions have no table: any length can be asked for
        with pytest.raises(ArgumentError, match="config has no") as caught:
            cost.model({other: value for other, value in config.items() if other != key})
        assert key in str(caught.value) or key in {"n_embd", "n_head", "n_layer", "n_positions"}


REFUSED = [
    ("deepseek_v3", "config sets kv_lora_rank = 512, whose cost is not known here"),
    ("longformer", "config sets attention_window = 512"),
    ("t5", "config describes an encoder and a decoder"),
    ("whisper", "config describes an encoder and a decoder"),
    ("clip", "config holds configs of its own; pass one of them: text_config, vision_config"),
    ("albert", "config is of model_type 'albert': its layers share their matrices"),
    ("diffllama", "config is of model_type 'diffllama': its heads attend twice"),
    ("swin", "config sets window_size = 7|config has num_heads = "),
    ("jamba", "config sets attn_layer_period"),
    ("qwen3_next", "config sets linear_|layers of type linear_attention"),
    ("falcon", "config sets num_kv_heads|multi_query"),
    ("modernbert", "config sets local_attention"),
    ("opt", "config of model_type 'opt' does not say causal and biases, which must be given"),
]


@pytest.mark.parametrize(("family", "message"), REFUSED)
def test_attention_that_is_not_plain_is_refused_by_the_name_of_its_setting(family, message):
    with pytest.raises(ArgumentError, match=message):
        cost.model(AutoConfig.for_model(family))


GPT2 = cost.MODELS["gpt2"]


@pytest.mark.parametrize(
    ("config", "given", "message"),
    [
        ("gpt-2", {}, "model must be bert-base, .* got 'gpt-2'; gpt2?"),
        ("xyz", {}, "model must be bert-base, .* got 'xyz'$"),
        ({**GPT2, "hidden_size": 1024}, {}, "contradicts itself about d_model: hidden_size = 1024 and n_embd = 768"),
        ({**GPT2, "n_head": [12, 12]}, {}, r"config has n_head = \[12, 12\], where one whole number was expected"),
        ({**GPT2, "n_head": 7}, {}, "config has no head_dim, and its 7 heads do not divide its width 768"),
        ({**GPT2, "vocab_size": None}, {}, "vocab_size = None, where a whole number was expected; without it gpt2"),
        ({**GPT2, "tie_word_embeddings": "no"}, {}, "tie_word_embeddings = 'no', where true or false was expected"),
        ({**GPT2, "attention_types": ["local"]}, {}, "config sets attention_types"),
        ({**GPT2, "add_cross_attention": True}, {}, "config sets add_cross_attention = True"),
        ({**GPT2, "sliding_window": 9}, {}, "config has sliding_window = 9 and no layer_types to say in which layers"),
        ({**GPT2, "layer_types": ["full_attention"]}, {}, "config has 1 layer_types for 12 layers"),
        ({**GPT2, "layer_types": ["sliding_attention"] * 12}, {}, "sliding_attention and sliding_window = None"),
        (GPT2, {"causal": False}, "causal = False contradicts the config, by which it is True"),
        (GPT2, {"biases": "q"}, "biases = 'q' contradicts the config, by which it is 'qkvo'"),
        ({"hidden_size": 8}, {}, "config has no num_attention_heads"),
        ({"hidden_size": 8, "num_heads": 2, "n_layer": 3}, {"causal": True}, "config does not say biases"),
    ],
)  # fmt: skip
def test_a_config_that_is_unclear_is_refused_and_what_is_missing_named(config, given, message):
    with pytest.raises(ArgumentError, match=message):
        cost.model(config, **given)


def test_what_is_no_config_is_refused():
    with pytest.raises(DTypeError, match=r"config must be a name of qkv.cost.MODELS, a mapping .* got int"):
        cost.model(12)
    with pytest.raises(ArgumentError, match="n must be given"):
        cost.model({"hidden_size": 8, "num_heads": 2, "n_layer": 3}, causal=True, biases="").cost()
    with pytest.raises(ArgumentError, match="cached must be 0 for bert-base, got 3"):
        cost.model("bert-base").cost(5, cached=3)


def test_settings_that_are_off_change_nothing():
    off = {
        "add_cross_attention": False,
        "attention_window": None,
        "cross_attention_layers": [],
        "num_kv_shared_layers": 0,
    }
    assert cost.model({**GPT2, **off}) == cost.model(GPT2)
