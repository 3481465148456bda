"""What a model says to its attention function, each argument by name: used, known to change no weight, or refused."""

from collections.abc import Mapping
from typing import Any

from torch import nn

from qkv.errors import ArgumentError

USED = {"scaling", "dropout", "is_causal", "softcap", "position_bias", "s_aux"}

# These reach every layer of a model, and say nothing that q, k, v and the mask do not contain already.
NO_MATTER = {
    "cache", "cache_position", "deterministic", "encoder_attention_mask", "encoder_hidden_states", "labels",
    "logits_to_keep", "num_items_in_batch", "output_attentions", "output_hidden_states", "output_router_logits",
    "past_key_values", "position_embeddings", "position_ids", "return_dict", "seq_idx", "sliding_window", "use_cache",
}  # fmt: skip

# These change the weights in a way that is not here yet, unless they are None.
REFUSED = {
    "block_indices": "it lets each query choose blocks of keys",
    "indices": "it lets each query choose its keys",
    "sinks": "it is a sink for each query, not for each head",
    "cu_seq_lens_q": "it packs sequences for flash attention; pass position_ids and no attention_mask",
    "cu_seq_lens_k": "it packs sequences for flash attention; pass position_ids and no attention_mask",
    "max_length_q": "it packs sequences for flash attention; pass position_ids and no attention_mask",
    "max_length_k": "it packs sequences for flash attention; pass position_ids and no attention_mask",
}

EAGER = 'model.set_attn_implementation("eager") runs it'


def check_names(module: nn.Module, settings: Mapping[str, Any]) -> None:
    """Raise an ArgumentError that names the first setting which is unknown, or known and not to be had."""
    for name, value in settings.items():
        if name in REFUSED and value is not None:
            raise ArgumentError(f"{name} of {kind(module)} can't be had: {REFUSED[name]}; {EAGER}")
        if name not in USED | NO_MATTER | REFUSED.keys():
            raise ArgumentError(
                f"qkv does not know the attention argument {name!r} of {kind(module)}, and guesses at none; {EAGER}"
            )


def kind(module: nn.Module) -> str:
    """How an error names a module: its class, and its layer where it has a number."""
    layer = getattr(module, "layer_idx", None)
    return type(module).__name__ + ("" if layer is None else f" (layer {layer})")
