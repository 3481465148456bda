"""The sizes that a transformers config holds, by the names they have there; what is missing or unknown is refused.

Every family of models has its own names (`n_embd`, `d_model`, `hidden_size`), and settings that change what attention
costs. A config that sets one that is not known here is refused by its name: its cost would be a guess.
"""

import re
from collections.abc import Mapping
from typing import Any

from qkv.cost._layer import Window
from qkv.errors import ArgumentError, DTypeError

NAMES = {
    "d_model": ("hidden_size", "n_embd", "d_model", "dim", "emb_dim"),
    "n_heads": ("num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads"),
    "n_kv_heads": ("num_key_value_heads",),
    "d_k": ("head_dim", "d_kv"),
    "n_layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "d_ff": ("intermediate_size", "n_inner", "ffn_dim", "hidden_dim", "d_ff"),
    "positions": ("max_position_embeddings", "n_positions", "n_ctx"),
}
BY_HAND = "count it by its sizes, with qkv.cost.layer"

# A setting with one of these words in its name may change what attention costs …
SUSPICIOUS = re.compile(
    r"attn|attention|heads|head_dim|key|query|value_|qkv|qk_|kv_|_kv$|window|layer_types?$|layers?_block|block_type"
    r"|lora_rank|chunk|local|global|sparse|cross|mamba|ssm|recurrent|linear_|conv_|encoder|decoder|num_blocks|stage"
    r"|hidden_groups|shrink"
)
# … and these are known not to, or are read below.
CLASSIFIED = re.compile(
    r".*(dropout|pdrop|drop_rate|initializer|_token_id|_std|_eps|_act|softcap(ping)?)(_.*)?"
    r"|output_attentions|_?attn_implementation|attention_multiplier|query_pre_attn_scalar|scale_attn_\w+"
    r"|reorder_and_upcast_attn|rope_\w+|relative_attention_\w+|qk_layernorm|(use_)?qk_norm|max_window_layers"
    r"|attention_softmax_in_fp32|mlp_layer_types|decoder_sparse_step|num_local_experts|stage_names|encoder_stride"
    r"|attention_bias|qkv_bias|is_decoder|use_sliding_window|_?sliding_window(_pattern)?|layer_types"
    r"|chunk_size_feed_forward"
)
# Families whose layer has more or less in it than any of their settings tells.
NOT_PLAIN = {
    "albert": "its layers share their matrices",
    "beam": "a gate stands behind its heads",
    "diffllama": "its heads attend twice, to values of twice the width",
    "fun_asr_nano_encoder": "its first layer is wider than the others",
    "hrm_text": "a gate stands behind its heads, and it runs its layers in cycles",
    "mra": "it computes some blocks of the map only",
    "sam3_lite_text_text_model": "some of its layers are convolutions",
    "yoso": "it replaces the softmax by sampling",
}


class Fields:
    """The settings of a config by name, with errors that say which is missing."""

    def __init__(self, config: Any) -> None:
        values = config.to_dict() if hasattr(config, "to_dict") else config
        if not isinstance(values, Mapping):
            raise DTypeError(
                f"config must be a name of qkv.cost.MODELS, a mapping such as the content of a config.json, or a "
                f"config of transformers, got {type(config).__name__}"
            )
        self.values = dict(values)
        self.family = str(self.values.get("model_type") or "")

    def size(self, name: str) -> int | None:
        """A size by our name for it, whatever the config calls it; None where it is not set."""
        found = {key: self.values[key] for key in NAMES[name] if self.values.get(key) is not None}
        if len(set(map(repr, found.values()))) > 1:
            said = " and ".join(f"{key} = {value!r}" for key, value in found.items())
            raise ArgumentError(f"config contradicts itself about {name}: {said}")
        for key, value in found.items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ArgumentError(f"config has {key} = {value!r}, where one whole number was expected; {BY_HAND}")
            return value
        return None

    def needed_size(self, name: str) -> int:
        """A size that has to be there."""
        found = self.size(name)
        if found is None:
            raise ArgumentError(f"config has no {NAMES[name][0]} (or {', '.join(NAMES[name][1:])})")
        return found

    def needed(self, key: str) -> int:
        """A size that has to be there, by its own name."""
        found = self.values.get(key)
        if isinstance(found, bool) or not isinstance(found, int) or found < 1:
            came = (
                f"has {key} = {found!r}, where a whole number was expected" if key in self.values else f"has no {key}"
            )
            raise ArgumentError(f"config {came}; without it {self.family} cannot be counted whole")
        return found

    def switch(self, key: str, default: bool) -> bool:
        """A setting that is on or off; where a config leaves it out, its class in transformers has this default."""
        found = self.values.get(key)
        if found is not None and not isinstance(found, bool):
            raise ArgumentError(f"config has {key} = {found!r}, where true or false was expected")
        return default if found is None else found


def refuse_unknown(fields: Fields) -> None:
    """ArgumentError when the config describes more than one stack of layers, or sets what is not known here."""
    if fields.family in NOT_PLAIN:
        raise ArgumentError(f"config is of model_type {fields.family!r}: {NOT_PLAIN[fields.family]}; {BY_HAND}")
    inner = [key for key, value in fields.values.items() if key.endswith("_config") and isinstance(value, Mapping)]
    if parts := [key for key in inner if key != "quantization_config"]:
        raise ArgumentError(f"config holds configs of its own; pass one of them: {', '.join(parts)}")
    if fields.values.get("is_encoder_decoder"):
        raise ArgumentError(f"config describes an encoder and a decoder, which are two stacks of layers; {BY_HAND}")
    known = {key for keys in NAMES.values() for key in keys}
    for key, value in fields.values.items():
        active = value is not None and value is not False and value not in (0, "", [], {}, ())
        if active and key not in known and SUSPICIOUS.search(key) and not CLASSIFIED.fullmatch(key):
            raise ArgumentError(f"config sets {key} = {_short(value)}, whose cost is not known here; {BY_HAND}")


def _short(value: Any) -> str:
    said = repr(value)
    return said if len(said) <= 40 else f"{said[:39]}…"


def windows(fields: Fields, n_layers: int, *, causal: bool, everywhere: bool) -> tuple[Window | None, ...]:
    """The window of each layer; `everywhere`: a sliding_window without layer_types holds in every layer."""
    types, width = fields.values.get("layer_types"), fields.values.get("sliding_window")
    if not fields.switch("use_sliding_window", default=True):
        width = None
    if types is None:
        if width is not None and not everywhere:
            raise ArgumentError(f"config has sliding_window = {width} and no layer_types to say in which layers")
        types = ["full_attention" if width is None else "sliding_attention"] * n_layers
    if len(types) != n_layers:
        raise ArgumentError(f"config has {len(types)} layer_types for {n_layers} layers")
    if unknown := sorted(set(types) - {"full_attention", "sliding_attention"}):
        raise ArgumentError(f"config has layers of type {', '.join(unknown)}, whose cost is not known here")
    if "sliding_attention" not in types:
        return (None,) * n_layers
    if isinstance(width, bool) or not isinstance(width, int) or width < 1 or not causal:
        raise ArgumentError(
            f"config has layers of type sliding_attention and sliding_window = {width!r}; a causal window of at least "
            f"1 key was expected"
        )
    # transformers counts the query's own position among the keys of its window.
    return tuple((width - 1, 0) if kind == "sliding_attention" else None for kind in types)
