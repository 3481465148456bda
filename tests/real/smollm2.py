"""SmolLM2-135M-Instruct from a GGUF file of llama.cpp: a causal model with 9 query heads on 3 key heads, RoPE.

The 4-bit blocks are expanded; names, config and tokenizer are those that transformers reads from a folder.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

NAMES = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
}  # fmt: skip
WHOLE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
CONTROL = 3  # llama.cpp's token type of <|im_start|> and its like


def write(out: Path, package: Path) -> None:
    """Write the model as a folder of transformers."""
    from gguf import GGUFReader
    from gguf.quants import dequantize
    from safetensors.numpy import save_file

    reader = GGUFReader(next(package.glob("*.gguf")))
    said = {name: field.contents() for name, field in reader.fields.items()}
    heads = {"attn_q": said["llama.attention.head_count"], "attn_k": said["llama.attention.head_count_kv"]}
    arrays = {}
    for tensor in reader.tensors:
        first, *rest = tensor.name.removesuffix(".weight").split(".")
        weight = dequantize(tensor.data, tensor.tensor_type)
        if rest and rest[1] in heads:
            weight = halves(weight, heads[rest[1]])
        name = f"model.layers.{rest[0]}.{NAMES[rest[1]]}" if rest else WHOLE[first]
        arrays[f"{name}.weight"] = np.ascontiguousarray(weight, np.float16)
    save_file(arrays, out / "model.safetensors", {"format": "pt"})
    config = config_of(said, tied="lm_head.weight" not in arrays)
    (out / "config.json").write_text(json.dumps(config), encoding="utf-8")
    write_tokenizer(out, said)


def halves(weight: Any, heads: int) -> Any:
    """Rows of a head in two halves that RoPE turns against each other: llama.cpp has the pairs side by side."""
    rows, width = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, width).swapaxes(1, 2).reshape(rows, width)


def config_of(said: dict[str, Any], tied: bool) -> dict[str, Any]:
    """The config.json of a LlamaForCausalLM, from the fields of the file."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": said["llama.embedding_length"],
        "intermediate_size": said["llama.feed_forward_length"],
        "num_hidden_layers": said["llama.block_count"],
        "num_attention_heads": said["llama.attention.head_count"],
        "num_key_value_heads": said["llama.attention.head_count_kv"],
        "max_position_embeddings": said["llama.context_length"],
        "rms_norm_eps": float(said["llama.attention.layer_norm_rms_epsilon"]),
        "rope_theta": float(said["llama.rope.freq_base"]),
        "vocab_size": said["llama.vocab_size"],
        "bos_token_id": said["tokenizer.ggml.bos_token_id"],
        "eos_token_id": said["tokenizer.ggml.eos_token_id"],
        "tie_word_embeddings": tied,
        "dtype": "float16",
    }


def write_tokenizer(out: Path, said: dict[str, Any]) -> None:
    """Write byte-level BPE with single digits, which is what the file calls "smollm"."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    tokens = said["tokenizer.ggml.tokens"]
    merges = [tuple(line.split(" ", 1)) for line in said["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE({token: at for at, token in enumerate(tokens)}, merges))
    digits = pre_tokenizers.Digits(individual_digits=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    kinds = zip(tokens, said["tokenizer.ggml.token_type"], strict=True)
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token, kind in kinds if kind == CONTROL])
    tokenizer.save(str(out / "tokenizer.json"))
    begin, end = (tokens[said[f"tokenizer.ggml.{name}_token_id"]] for name in ("bos", "eos"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": begin, "eos_token": end, "pad_token": end}
    (out / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
