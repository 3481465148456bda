"""The attention function that transformers calls for each layer, and the two registrations that it takes."""

from typing import Any

import torch
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface

from qkv import biases, masks
from qkv._broadcast import said
from qkv._problem import Problem
from qkv.errors import ArgumentError, ShapeError
from qkv.torch import TensorMap, record
from qkv.transformers import _watch
from qkv.transformers._family import check_family
from qkv.transformers._mask import ModelMask, model_mask
from qkv.transformers._settings import check_names, kind

NAME = "qkv"


def register() -> None:
    """Make "qkv" an attention implementation of transformers: `model.set_attn_implementation("qkv")`.

    Registers the attention and the mask under that name; with the first alone, transformers would drop every mask
    without a word. Calling it again changes nothing.
    """
    # A map is a Python object; a compiled model leaves its graph to make one.
    AttentionInterface.register(NAME, torch.compiler.disable(attention))  # type: ignore[no-untyped-call]
    AttentionMaskInterface.register(NAME, torch.compiler.disable(model_mask))  # type: ignore[no-untyped-call]


def attention(
    module: nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attention_mask: Any = None,
    scaling: float | None = None, dropout: float = 0.0, **settings: Any,
) -> tuple[torch.Tensor, TensorMap]:  # fmt: skip
    """The output of one attention, (batch, n_q, n_heads, d_v), and its map.

    query: (batch, n_heads, n_q, d_k), key and value: (batch, n_kv_heads, n_k, d_k or d_v). The other arguments are
    those that transformers' models pass to any attention function.
    """
    check_names(module, settings)
    named = {name: settings.get(name) for name in ("position_bias", "s_aux")}
    _check_training(module, dropout, query=query, key=key, value=value, **named)
    how: dict[str, Any] = {"scale": scaling, "softcap": settings.get("softcap"), "sinks": settings.get("s_aux")}
    how |= _mask_and_bias(module, query, key, attention_mask, settings)
    check_family(module, query, key, value, attention_mask is not None, {"scaling": scaling, **settings})
    live = TensorMap(Problem.of(query.detach(), key.detach(), **how))
    out = (live @ value.to(query.dtype)).to(value.dtype)
    seen = record(query, key, **how) if _watch.wanted(settings) else live
    _watch.tell(module, seen)
    return out.transpose(1, 2).contiguous(), seen


def _check_training(module: nn.Module, dropout: float, **tensors: torch.Tensor | None) -> None:
    if dropout and module.training:
        raise ArgumentError(
            f"{kind(module)} is in training mode, where dropout ({dropout:g}) would make its weights random: "
            "call model.eval() first"
        )
    for name, tensor in tensors.items():
        if tensor is not None and tensor.requires_grad and torch.is_grad_enabled():
            raise ArgumentError(
                f"{name} of {kind(module)} requires grad, and gradients through qkv are not there yet: run the model "
                'under torch.no_grad(), or train it with model.set_attn_implementation("sdpa")'
            )


def _mask_and_bias(
    module: nn.Module, query: torch.Tensor, key: torch.Tensor, given: Any, settings: dict[str, Any]
) -> dict[str, Any]:
    """mask= and bias= of `attend`, from a mask of ours, a tensor of the user's or none, and a position bias."""
    n_q, n_k = query.shape[-2], key.shape[-2]
    bias = settings.get("position_bias")
    if bias is not None and not bias.any():  # T5 passes zeros to its cross attention
        bias = None
    if isinstance(given, ModelMask):
        if given.shape[-2:] != (n_q, n_k):
            raise ShapeError(f"the mask of {kind(module)} has shape {given.shape}; expected (…, {n_q}, {n_k})")
        return {"mask": given.rule, "bias": bias}
    if given is None:
        return {"mask": _implied(module, n_q, settings), "bias": bias}
    if not isinstance(given, torch.Tensor) or given.ndim != 4:
        raise ShapeError(
            f"attention_mask of {kind(module)} is {said(given)}; expected four axes, (batch, n_heads or 1, n_q, n_k): "
            "bool, True = may attend, or float, added to the score"
        )
    if not given.is_floating_point():
        return {"mask": given, "bias": bias}
    added = biases.dense(given.detach(), "attention_mask")
    return {"mask": None, "bias": added if bias is None else biases.as_bias(bias.detach(), "position_bias") + added}


def _implied(module: nn.Module, n_q: int, settings: dict[str, Any]) -> masks.Mask | None:
    """The mask where none came, as the implementations of transformers have it: causal from the first key, or open."""
    causal = settings.get("is_causal")
    causal = getattr(module, "is_causal", True) if causal is None else causal
    if not causal or n_q == 1:
        return None
    if settings.get("sliding_window") is not None:
        raise ArgumentError(
            f"{kind(module)} has a sliding window and no mask came to say where it lies; "
            "pass attention_mask, or call qkv.transformers.register() before the model runs"
        )
    return masks.causal(offset=0)
