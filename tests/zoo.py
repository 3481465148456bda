"""Random models of 65 architectures, as small as they can be: 49 whose attention qkv can run, and 16 that run it."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"  # nothing is downloaded, and nothing asks whether it might be

import torch
import transformers

import qkv.transformers

transformers.logging.set_verbosity_error()  # tiny configurations leave out tokens that real ones have
torch.set_num_threads(1)
qkv.transformers.register()

BATCH, LENGTH = 2, 7
VOCABULARY = 99


def sizes(**of: Any) -> dict[str, Any]:
    """The sizes in a config."""
    return of


TEXT = sizes(
    vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32,
    max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2,
)  # fmt: skip
GROUPED = dict(TEXT, num_key_value_heads=2)
WIDE = dict(GROUPED, head_dim=8)
OLD = sizes(vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=1, eos_token_id=2)
TWO = sizes(
    vocab_size=VOCABULARY, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
    decoder_attention_heads=4, encoder_ffn_dim=32, decoder_ffn_dim=32, max_position_embeddings=64, pad_token_id=0,
    bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
)  # fmt: skip
PICTURE = sizes(
    hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, image_size=16, patch_size=8
)
EXPERTS = sizes(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16)


@dataclass(frozen=True)
class Architecture:
    """A model class, its config class, what makes it small, and what it takes: "text", "image", "both", "pair", …"""

    model: str
    config: str
    takes: str
    size: dict[str, Any]


def small(model: str, config: str, takes: str, *usual: dict[str, Any], **own: Any) -> Architecture:
    """An architecture with the usual sizes of its kind and its own."""
    merged: dict[str, Any] = {}
    for each in (*usual, own):
        merged |= each
    return Architecture(model, config, takes, merged)


THROUGH_QKV = {
    "albert": small("AlbertModel", "AlbertConfig", "text", TEXT, embedding_size=16),
    "bart": small("BartModel", "BartConfig", "pair", TWO),
    "beit": small("BeitModel", "BeitConfig", "image", PICTURE),
    "bert": small("BertModel", "BertConfig", "text", TEXT),
    "clip": small(
        "CLIPModel", "CLIPConfig", "both",
        text_config=dict(TEXT, eos_token_id=98), vision_config=PICTURE, projection_dim=16,
    ),
    "codegen": small("CodeGenForCausalLM", "CodeGenConfig", "text", OLD, n_ctx=64, rotary_dim=4),
    "cohere2": small(
        "Cohere2ForCausalLM", "Cohere2Config", "text", WIDE, sliding_window=4, num_hidden_layers=4
    ),
    "ctrl": small("CTRLLMHeadModel", "CTRLConfig", "text", OLD, dff=32),
    "deepseek_v3": small(
        "DeepseekV3ForCausalLM", "DeepseekV3Config", "text",
        TEXT, num_key_value_heads=4, moe_intermediate_size=16, n_routed_experts=4, n_group=1, topk_group=1,
        num_experts_per_tok=2, kv_lora_rank=16, q_lora_rank=16, qk_rope_head_dim=4, qk_nope_head_dim=8,
        v_head_dim=8, first_k_dense_replace=1,
    ),
    "deit": small("DeiTModel", "DeiTConfig", "image", PICTURE),
    "diffllama": small("DiffLlamaForCausalLM", "DiffLlamaConfig", "text", WIDE),
    "dinov2": small("Dinov2Model", "Dinov2Config", "image", PICTURE, mlp_ratio=1),
    "dinov3_vit": small("DINOv3ViTModel", "DINOv3ViTConfig", "image", PICTURE),
    "distilbert": small(
        "DistilBertModel", "DistilBertConfig", "text",
        vocab_size=VOCABULARY, dim=32, n_layers=2, n_heads=4, hidden_dim=32, max_position_embeddings=64,
    ),
    "electra": small("ElectraModel", "ElectraConfig", "text", TEXT, embedding_size=16),
    "esm": small(
        "EsmModel", "EsmConfig", "text", TEXT, mask_token_id=3, position_embedding_type="rotary"
    ),
    "gemma2": small(
        "Gemma2ForCausalLM", "Gemma2Config", "text", WIDE, sliding_window=4, query_pre_attn_scalar=8
    ),
    "gemma3": small(
        "Gemma3ForCausalLM", "Gemma3TextConfig", "text",
        WIDE, sliding_window=4, num_hidden_layers=6, query_pre_attn_scalar=8,
    ),
    "gpt2": small("GPT2LMHeadModel", "GPT2Config", "text", OLD),
    "gpt_bigcode": small("GPTBigCodeForCausalLM", "GPTBigCodeConfig", "text", OLD),
    "gpt_neox": small("GPTNeoXForCausalLM", "GPTNeoXConfig", "text", TEXT),
    "gpt_oss": small(
        "GptOssForCausalLM", "GptOssConfig", "text",
        WIDE, sliding_window=4, num_local_experts=4, num_experts_per_tok=2,
    ),
    "gptj": small("GPTJForCausalLM", "GPTJConfig", "text", OLD, rotary_dim=4),
    "granite": small("GraniteForCausalLM", "GraniteConfig", "text", GROUPED),
    "llama": small("LlamaForCausalLM", "LlamaConfig", "text", WIDE),
    "llama4_text": small(
        "Llama4ForCausalLM", "Llama4TextConfig", "text",
        WIDE, intermediate_size_mlp=32, num_local_experts=2, attention_chunk_size=4, num_hidden_layers=4,
    ),
    "marian": small("MarianModel", "MarianConfig", "pair", TWO),
    "mistral": small("MistralForCausalLM", "MistralConfig", "text", WIDE, sliding_window=4),
    "mixtral": small("MixtralForCausalLM", "MixtralConfig", "text", WIDE, num_local_experts=4),
    "modernbert": small(
        "ModernBertModel", "ModernBertConfig", "text",
        TEXT, num_hidden_layers=3, local_attention=4, global_attn_every_n_layers=3, cls_token_id=1, sep_token_id=2,
    ),
    "moonshine": small(
        "MoonshineModel", "MoonshineConfig", "sound",
        vocab_size=VOCABULARY, hidden_size=32, encoder_num_hidden_layers=2, decoder_num_hidden_layers=2,
        encoder_num_attention_heads=4, decoder_num_attention_heads=4, intermediate_size=32,
        decoder_start_token_id=1,
    ),
    "olmo2": small("Olmo2ForCausalLM", "Olmo2Config", "text", GROUPED),
    "opt": small(
        "OPTForCausalLM", "OPTConfig", "text",
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=32,
        max_position_embeddings=64, word_embed_proj_dim=32,
    ),
    "pegasus": small("PegasusModel", "PegasusConfig", "pair", TWO),
    "phi3": small("Phi3ForCausalLM", "Phi3Config", "text", GROUPED),
    "qwen2": small("Qwen2ForCausalLM", "Qwen2Config", "text", GROUPED),
    "qwen3": small("Qwen3ForCausalLM", "Qwen3Config", "text", WIDE),
    "qwen3_moe": small("Qwen3MoeForCausalLM", "Qwen3MoeConfig", "text", WIDE, EXPERTS),
    "qwen3_next": small(
        "Qwen3NextForCausalLM", "Qwen3NextConfig", "text",
        WIDE, EXPERTS, num_hidden_layers=4, shared_expert_intermediate_size=16, linear_num_value_heads=4,
        linear_num_key_heads=2, linear_key_head_dim=8, linear_value_head_dim=8,
    ),
    "roberta": small("RobertaModel", "RobertaConfig", "text", TEXT),
    "segformer": small(
        "SegformerModel", "SegformerConfig", "image",
        num_encoder_blocks=2, depths=[1, 1], sr_ratios=[2, 1], hidden_sizes=[16, 32], patch_sizes=[7, 3],
        strides=[4, 2], num_attention_heads=[2, 4], mlp_ratios=[2, 2],
    ),
    "siglip": small("SiglipModel", "SiglipConfig", "both", text_config=TEXT, vision_config=PICTURE),
    "smollm3": small("SmolLM3ForCausalLM", "SmolLM3Config", "text", GROUPED),
    "swin": small(
        "SwinModel", "SwinConfig", "image",
        image_size=16, patch_size=2, embed_dim=16, depths=[1, 2], num_heads=[2, 4], window_size=2,
    ),
    "t5": small(
        "T5Model", "T5Config", "pair",
        vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=32, num_layers=2, num_heads=4, decoder_start_token_id=1,
    ),
    "t5gemma": small(
        "T5GemmaModel", "T5GemmaConfig", "pair",
        encoder=dict(WIDE, sliding_window=4), decoder=dict(WIDE, sliding_window=4, cross_attention_hidden_size=32),
    ),
    "vit": small("ViTModel", "ViTConfig", "image", PICTURE),
    "wav2vec2": small(
        "Wav2Vec2Model", "Wav2Vec2Config", "wave",
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, conv_dim=[8, 8],
        conv_kernel=[3, 3], conv_stride=[2, 2], num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2,
        feat_extract_norm="layer",
    ),
    "whisper": small(
        "WhisperModel", "WhisperConfig", "speech", TWO, max_source_positions=20, max_target_positions=30
    ),
}  # fmt: skip

PAST_QKV = {
    "big_bird": small("BigBirdModel", "BigBirdConfig", "text", TEXT, attention_type="original_full"),
    "bloom": small(
        "BloomForCausalLM", "BloomConfig", "text", vocab_size=VOCABULARY, hidden_size=32, n_layer=2, n_head=4
    ),
    "deberta_v2": small(
        "DebertaV2Model", "DebertaV2Config", "text", TEXT, relative_attention=True, pos_att_type=["c2p", "p2c"]
    ),
    "falcon": small(
        "FalconForCausalLM", "FalconConfig", "text",
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
    ),
    "funnel": small(
        "FunnelModel", "FunnelConfig", "text",
        vocab_size=VOCABULARY, d_model=32, n_head=4, d_head=8, d_inner=32, block_sizes=[1, 1], num_decoder_layers=1,
    ),
    "gpt_neo": small(
        "GPTNeoForCausalLM", "GPTNeoConfig", "text",
        vocab_size=VOCABULARY, hidden_size=32, num_layers=2, num_heads=4, intermediate_size=32,
        max_position_embeddings=64, attention_types=[[["global", "local"], 1]], window_size=4,
    ),
    "longformer": small("LongformerModel", "LongformerConfig", "text", TEXT, attention_window=4),
    "mamba": small(
        "MambaForCausalLM", "MambaConfig", "text", vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2
    ),
    "mpnet": small("MPNetModel", "MPNetConfig", "text", TEXT),
    "mpt": small(
        "MptForCausalLM", "MptConfig", "text",
        vocab_size=VOCABULARY, d_model=32, n_layers=2, n_heads=4, max_seq_len=64,
    ),
    "openai_gpt": small("OpenAIGPTLMHeadModel", "OpenAIGPTConfig", "text", OLD),
    "perceiver": small(
        "PerceiverModel", "PerceiverConfig", "points",
        num_latents=8, d_latents=32, d_model=16, num_blocks=1, num_self_attends_per_block=2,
        num_self_attention_heads=4, num_cross_attention_heads=4,
    ),
    "rwkv": small(
        "RwkvForCausalLM", "RwkvConfig", "ids",
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, attention_hidden_size=32,
    ),
    "sam_vision": small(
        "SamVisionModel", "SamVisionConfig", "image",
        PICTURE, image_size=32, output_channels=16, window_size=2, global_attn_indexes=[1],
    ),
    "xlm": small("XLMModel", "XLMConfig", "text", vocab_size=VOCABULARY, emb_dim=32, n_layers=2, n_heads=4),
    "xlnet": small(
        "XLNetModel", "XLNetConfig", "text", vocab_size=VOCABULARY, d_model=32, n_layer=2, n_head=4, d_inner=32
    ),
}  # fmt: skip

ALL = THROUGH_QKV | PAST_QKV


def build(name: str, **size: Any) -> Any:
    """A random model of this architecture in evaluation mode, with weights large enough that its maps are not flat."""
    what = ALL[name]
    config = getattr(transformers, what.config)(**(what.size | size))
    return scatter(getattr(transformers, what.model)(config))


def scatter(model: Any) -> Any:
    """The model in evaluation mode with every weight drawn anew."""
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn(weight.shape, generator=random) * 0.15)
    return model.eval()


def padding(side: str) -> torch.Tensor:
    """An attention_mask for two sequences, the second with two tokens of padding: (2, 7)."""
    mask = torch.ones(BATCH, LENGTH, dtype=torch.long)
    mask[1, slice(None, 2) if side == "left" else slice(-2, None)] = 0
    return mask


def inputs(name: str, side: str = "left") -> dict[str, torch.Tensor]:
    """What a model of this architecture takes, two of each."""
    random = torch.Generator().manual_seed(1)
    ids = torch.randint(5, 90, (BATCH, LENGTH), generator=random)
    ids[:, 3] = 98  # CLIP looks for the end of the text
    text = {"input_ids": ids, "attention_mask": padding(side)}
    size = 32 if name == "sam_vision" else 16

    def noise(*shape: int) -> torch.Tensor:
        return torch.randn(BATCH, *shape, generator=random)

    return {
        "text": lambda: text,
        "ids": lambda: {"input_ids": ids},
        "pair": lambda: text | {"decoder_input_ids": ids[:, :5]},
        "image": lambda: {"pixel_values": noise(3, size, size)},
        "both": lambda: text | {"pixel_values": noise(3, size, size)},
        "speech": lambda: {"input_features": noise(80, 40), "decoder_input_ids": ids[:, :5]},
        "sound": lambda: {"input_values": noise(2000), "decoder_input_ids": ids[:, :5]},
        "wave": lambda: {"input_values": noise(100)},
        "points": lambda: {"inputs": noise(6, 16)},
    }[ALL[name].takes]()


def maps(out: Any) -> Iterator[tuple[str, Any]]:
    """Every attention in an output, and in the outputs within it: its name and layer, and what is there."""
    for name, value in out.items():
        if "attentions" in name and isinstance(value, tuple):
            yield from ((f"{name}[{layer}]", each) for layer, each in enumerate(value))
        elif hasattr(value, "items") and hasattr(value, "to_tuple"):
            yield from ((f"{name}.{inner}", each) for inner, each in maps(value))


def visible(attention_map: Any) -> torch.Tensor:
    """Which queries see a key: (batch, n_heads, n_q)."""
    return (attention_map.scores("biased").dense() > -1e30).any(-1)


def outputs(out: Any) -> list[torch.Tensor]:
    """What a forward gives for each position: the logits or the last hidden state, of CLIP's towers that of each."""
    towers = [out[name] for name in ("text_model_output", "vision_model_output") if name in out]
    named = [each[name] for each in towers or [out] for name in ("logits", "last_hidden_state") if name in each]
    return named[: max(1, len(towers))] or [out[0]]
