"""One pass through a model of transformers, and the weights of each of its layers, found in three ways.

eager: transformers' own dense softmax. ours: `qkv.transformers`. identity: torch's fused attention with V replaced by
the columns of the identity matrix, a few at a time, so that what it averages is the weights themselves.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

ATTENTIONS = ("encoder_attentions", "attentions", "decoder_attentions", "cross_attentions")
OUTPUTS = ("logits", "last_hidden_state")


@dataclass(frozen=True, eq=False)
class Pass:
    """output: what the model is for. maps: as the model returned them, in the order of `ATTENTIONS`."""

    output: Any
    maps: list[Any]


def run(
    model: Any, inputs: dict[str, Any], implementation: str, dtype: torch.dtype = torch.float32, maps: bool = True
) -> Pass:
    """One pass with this attention in this dtype; the model is left in float32. maps: whether to ask for them."""
    model.set_attn_implementation(implementation)
    cast = {name: each.to(dtype) if each.is_floating_point() else each for name, each in inputs.items()}
    try:
        with torch.no_grad():
            out = model.to(dtype)(**cast, output_attentions=maps)
    finally:
        model.to(torch.float32)
    output = next(out[name] for name in OUTPUTS if name in out)
    return Pass(output, [each for name in ATTENTIONS if out.get(name) is not None for each in out[name]])


class Identity:
    """Attention of torch whose values are the identity: what it gives are the weights, in the order of the calls."""

    def __init__(self) -> None:
        self.weights: list[np.ndarray[Any, Any]] = []

    def __call__(self, module: Any, q: Any, k: Any, v: Any, mask: Any, **how: Any) -> Any:
        n_k, width = k.shape[-2], v.shape[-1]
        columns = []
        for start in range(0, n_k, width):
            part = torch.zeros(n_k, width, dtype=v.dtype)
            part[range(start, min(start + width, n_k)), range(min(width, n_k - start))] = 1
            columns.append(sdpa_attention_forward(module, q, k, part.expand_as(v), mask, **how)[0])
        self.weights.append(torch.cat(columns, dim=-1)[..., :n_k].transpose(1, 2).numpy())
        return sdpa_attention_forward(module, q, k, v, mask, **how)


def by_identity(model: Any, inputs: dict[str, Any]) -> list[np.ndarray[Any, Any]]:
    """The weights of each call of one pass, by averaging the columns of the identity."""
    oracle = Identity()
    AttentionInterface.register("identity", oracle)
    AttentionMaskInterface.register("identity", sdpa_mask)
    model.set_attn_implementation("identity")
    with torch.no_grad():
        model(**inputs)
    return oracle.weights
