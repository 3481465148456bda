"""Watching a model: which of its modules ran attention, in which order, and which of them never came here."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from torch import nn
from transformers.utils import output_capturing

from qkv.errors import ArgumentError
from qkv.torch import TensorMap

ATTENTION = re.compile(r"attention|attn", re.IGNORECASE)  # in the class name of every attention of transformers


@dataclass(frozen=True)
class Call:
    """One attention that came here, and its weights.

    name: of the module in the model, as in `model.named_modules()`; "" for a module outside it.
    forward: which run of the model it belongs to, from 0.
    turn: which call of this module in that run, from 0: one module may stand for many layers (ALBERT), or attend twice.
    """

    name: str
    forward: int
    turn: int
    map: TensorMap


@dataclass(repr=False)
class Seen:
    """What `watch` saw of a model.

    calls: every attention that came here, in order. forwards: how often the model ran.
    ran: the attention modules that ran, in order, and whether an attention came here from inside them.
    """

    model: nn.Module
    calls: list[Call] = field(default_factory=list)
    forwards: int = 0
    ran: dict[str, bool] = field(default_factory=dict)

    @property
    def silent(self) -> tuple[str, ...]:
        """The innermost attention modules that ran and never came here: their weights are in no call."""
        silent = [name for name, came in self.ran.items() if not came]
        return tuple(name for name in silent if not any(other.startswith(f"{name}.") for other in self.ran))

    def check(self) -> None:
        """Raise an ArgumentError where the model ran and no attention of it came here."""
        if not self.forwards or self.calls:
            return
        ran = f"its attention ran in {_some(self.silent)}" if self.silent else "no module of it is named attention"
        set_to = getattr(self.model.config, "_attn_implementation", None)
        way_out = "The model has an attention of its own, or none"
        if set_to != "qkv":
            way_out = 'Call model.set_attn_implementation("qkv"); where that changes nothing, t' + way_out[1:]
        raise ArgumentError(
            f"{type(self.model).__name__} ran and never called qkv: {ran}, and its attention implementation is "
            f"{set_to!r}. {way_out}; output_attentions=True under 'eager' gives what dense weights it has"
        )

    def __repr__(self) -> str:
        silent = f", silent: {_some(self.silent)}" if self.silent else ""
        return f"Seen({type(self.model).__name__}, {self.forwards} forwards, {len(self.calls)} calls{silent})"


class _Watcher:
    """Writes into `seen` what happens in its model."""

    def __init__(self, model: nn.Module) -> None:
        self.seen = Seen(model)
        self.names = {id(module): name for name, module in model.named_modules()}
        self.turns = Counter[str]()
        self.inside: list[str] = []  # the attention modules that are running now, outermost first

    def listen(self) -> Iterator[Any]:
        """Hook the model and its attention modules; yields the handles that take the hooks away again."""
        yield self.seen.model.register_forward_pre_hook(self.begin)
        for name, module in self.seen.model.named_modules():
            if name and ATTENTION.search(type(module).__name__):
                yield module.register_forward_pre_hook(lambda *_, name=name: self.enter(name))
                yield module.register_forward_hook(self.leave, always_call=True)

    def begin(self, *_: Any) -> None:
        self.seen.forwards += 1
        self.turns.clear()

    def enter(self, name: str) -> None:
        self.inside.append(name)
        self.seen.ran.setdefault(name, False)

    def leave(self, *_: Any) -> None:
        self.inside.pop()

    def tell(self, module: nn.Module, attention_map: TensorMap) -> None:
        name = self.names.get(id(module), "")
        forward = max(0, self.seen.forwards - 1)  # generate runs an encoder by itself before the first forward
        self.seen.calls.append(Call(name, forward, self.turns[name], attention_map))
        self.turns[name] += 1
        self.seen.ran.update(dict.fromkeys(self.inside, True))


_WATCHING: ContextVar[tuple[_Watcher, ...]] = ContextVar("qkv_watching", default=())


@contextmanager
def watch(model: nn.Module, silent: str = "raise") -> Iterator[Seen]:
    """See which attention of a model comes to qkv while the block runs, and keep its maps.

        with qkv.transformers.watch(model) as seen, torch.no_grad():
            model(**inputs)
        seen.calls[0].map.entropy()

    silent: "raise" raises an ArgumentError at the end of the block where the model ran and nothing of it came here;
    "tell" leaves it to `seen.silent`.
    """
    if silent not in {"raise", "tell"}:
        raise ArgumentError(f'silent is {silent!r}; expected "raise" or "tell"')
    watcher = _Watcher(model)
    handles = list(watcher.listen())
    token = _WATCHING.set((*_WATCHING.get(), watcher))
    try:
        yield watcher.seen
    finally:
        _WATCHING.reset(token)
        for handle in handles:
            handle.remove()
    if silent == "raise":
        watcher.seen.check()


def wanted(settings: Mapping[str, Any]) -> bool:
    """Whether somebody may keep the map of this call, so that it must not change when a cache is written to."""
    if _WATCHING.get() or settings.get("output_attentions"):
        return True
    # Here transformers collects outputs while a model runs; in a model or a version without it, every map is kept.
    collected = getattr(getattr(output_capturing, "_active_collector", None), "get", lambda: None)()
    return collected is None or any("attentions" in name for name in collected)


def tell(module: nn.Module, attention_map: TensorMap) -> None:
    """Tell every watcher of this thread about a call."""
    for watcher in _WATCHING.get():
        watcher.tell(module, attention_map)


def _some(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
