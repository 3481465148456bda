"""The mask of a forward on its way from the model, which makes it once, to each layer's attention."""

from typing import Any, NoReturn

import numpy as np
from transformers import masking_utils

from qkv import masks
from qkv._typing import Array, Shape
from qkv.errors import ArgumentError
from qkv.transformers._place import Place
from qkv.transformers._read import Function, read, visible_keys

# What transformers says beside the mask itself: hints for masks that may be left out, and where dense ones are to lie.
HINTS = {"allow_is_causal_skip", "allow_is_bidirectional_skip", "local_size", "dtype", "config"}
_WAY_OUT = 'a mask of qkv is no tensor; model.set_attn_implementation("eager") runs this model'


class ModelMask:
    """rule: who sees whom, None for everybody. shape: (batch, 1, n_q, n_k), of what is never stored."""

    ndim = 4  # transformers takes a mask with two axes for padding

    def __init__(self, rule: masks.Mask | None, shape: Shape) -> None:
        self.rule, self.shape = rule, shape

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"the model asks its mask for {name!r}; {_WAY_OUT}")

    def __getitem__(self, index: Any) -> NoReturn:
        raise ArgumentError(f"the model takes a part of its mask; {_WAY_OUT}")

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> NoReturn:
        raise ArgumentError(f"the model calls {getattr(func, '__name__', func)} with its mask; {_WAY_OUT}")

    def __repr__(self) -> str:
        return f"ModelMask({self.rule!r}, shape={self.shape})"


def model_mask(
    batch_size: int, q_length: int, kv_length: int, q_offset: Any = 0, kv_offset: Any = 0,
    mask_function: Function = masking_utils.causal_mask_function, attention_mask: Any = None, use_vmap: bool = False,
    device: Any = "cpu", **hints: Any,
) -> ModelMask:  # fmt: skip
    """The mask that transformers describes, as an object; the arguments are those of its own mask functions."""
    if unknown := sorted(hints.keys() - HINTS):
        raise ArgumentError(f"qkv does not know the mask argument {unknown[0]!r} of this version of transformers")
    if isinstance(attention_mask, ModelMask):  # made before the forward, by a generate with a static cache
        return attention_mask
    place = Place(batch_size, q_length, kv_length, int(q_offset), int(kv_offset), device)
    rule = read(mask_function, place, use_vmap)
    padding = None if attention_mask is None else visible_keys(_on_keys(attention_mask, place))
    if rule is not None and padding is not None:
        rule = rule & padding
    return ModelMask(padding if rule is None else rule, place.shape)


def _on_keys(attention_mask: Any, place: Place) -> Array:
    """The padding mask (batch, positions) for the keys of this forward: (batch, n_k). What it leaves out is hidden."""
    if attention_mask.ndim != 2:
        raise ArgumentError(
            f"attention_mask has shape {tuple(attention_mask.shape)}; expected (batch, positions) or four axes"
        )
    told: Array = attention_mask.bool().numpy(force=True)[:, place.kv_offset : place.kv_offset + place.n_k]
    return np.pad(told, ((0, 0), (0, place.n_k - told.shape[1])))
