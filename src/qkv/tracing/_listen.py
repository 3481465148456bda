"""What a map does not hold, kept while a model runs: the values, and the matrix that reads what the heads give."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface

from qkv.errors import ArgumentError
from qkv.torch import TensorMap
from qkv.transformers import watch
from qkv.transformers._interface import attention
from qkv.transformers._mask import model_mask

NAME = "qkv-trace"


@dataclass
class Kept:
    """One attention: the module's name, its map, its values, and the matrix after it once that has run."""

    name: str
    map: TensorMap
    values: torch.Tensor
    w_o: torch.Tensor | None = None


class Listener:
    """Told of every attention, and of everything that enters a dense map: the first to enter one is what W_O reads."""

    def __init__(self) -> None:
        self.values: list[torch.Tensor] = []
        self.w_o: list[torch.Tensor | None] = []
        # By address; the tensor is kept, so that no other one takes its place.
        self._waiting: dict[int, tuple[int, torch.Tensor]] = {}

    def attended(self, value: torch.Tensor, out: torch.Tensor) -> None:
        """An attention over these values gave `out`, (batch, n_q, n_heads, d_v)."""
        self._waiting[out.data_ptr()] = (len(self.values), out)
        self.values.append(value.detach().clone())
        self.w_o.append(None)

    def enters(self, dense: nn.Module, given: tuple[Any, ...]) -> None:
        """A dense map is about to run; the hook of a module."""
        x = given[0] if given else None
        if not isinstance(x, torch.Tensor) or x.data_ptr() not in self._waiting:
            return
        at, out = self._waiting.pop(x.data_ptr())
        weight: Any = dense.weight if type(dense).__name__ == "Conv1D" else dense.weight.T
        if x.numel() == out.numel() and weight.shape[0] == out.shape[-2] * out.shape[-1]:
            self.w_o[at] = weight.detach()


_LISTENING: ContextVar[Listener | None] = ContextVar("qkv_listening", default=None)


def _attention(module: nn.Module, query: Any, key: Any, value: Any, *rest: Any, **settings: Any) -> Any:
    """`qkv.transformers`' attention, heard by the listener."""
    out, weights = attention(module, query, key, value, *rest, **settings)
    if (listener := _LISTENING.get()) is not None:
        listener.attended(value, out)
    return out, weights


def listen(model: nn.Module, inputs: Mapping[str, Any] | tuple[Any, ...]) -> tuple[list[Kept], Any]:
    """One pass: every attention in order, and what the model returned."""
    AttentionInterface.register(NAME, _attention)
    AttentionMaskInterface.register(NAME, model_mask)
    listener = Listener()
    with ExitStack() as stack:
        stack.enter_context(_set_to_trace(model))
        stack.enter_context(torch.no_grad())
        seen = stack.enter_context(watch(model, silent="tell"))
        for module in model.modules():
            if isinstance(module, nn.Linear) or type(module).__name__ == "Conv1D":
                stack.enter_context(module.register_forward_pre_hook(listener.enters))
        token = _LISTENING.set(listener)
        stack.callback(_LISTENING.reset, token)
        output = model(**inputs) if isinstance(inputs, Mapping) else model(*inputs)
    if not seen.calls:
        raise ArgumentError(
            f"{type(model).__name__} has attention of its own, or none: nothing of it came to qkv. Its weights, where "
            'it has any, come from output_attentions=True with attn_implementation="eager"'
        )
    turns = Counter(call.name for call in seen.calls)
    names = [f"{call.name}[{call.turn}]" if turns[call.name] > 1 else call.name for call in seen.calls]
    parts = zip(names, seen.calls, listener.values, listener.w_o, strict=True)
    return [Kept(name, call.map, values, w_o) for name, call, values, w_o in parts], output


@contextmanager
def _set_to_trace(model: Any) -> Iterator[None]:
    """The model with our attention while the block runs, and with what it had before afterwards."""
    before = _implementations(model.config)
    model.set_attn_implementation(NAME)
    try:
        yield
    finally:
        model.set_attn_implementation(before)


def _implementations(config: Any) -> dict[str, Any]:
    """The attention implementation of a config, under "", and those of the configs inside it."""
    inside = {name: getattr(config, name, None) for name in config.sub_configs}
    parts = {name: _implementations(part) for name, part in inside.items() if part is not None}
    return {"": config._attn_implementation, **parts}  # noqa: SLF001 (transformers has no public name for it)


def value_norms(values: torch.Tensor, w_o: torch.Tensor) -> torch.Tensor:
    """‖v_j W_O‖: values (batch, n_kv_heads, n_k, d_v), w_o (n_heads · d_v, d_out) -> (batch, n_heads, n_k)."""
    n_kv_heads, d_v = values.shape[1], values.shape[-1]
    heads = w_o.reshape(-1, d_v, w_o.shape[-1]).to(torch.promote_types(values.dtype, torch.float32))
    group = len(heads) // n_kv_heads
    # One head at a time: all of them at once would be as large as n_heads hidden states.
    norms = [(values[:, h // group].to(rows.dtype) @ rows).norm(dim=-1) for h, rows in enumerate(heads)]
    return torch.stack(norms, dim=1)
