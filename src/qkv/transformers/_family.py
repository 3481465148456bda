"""Whether a model's own attention is the one that qkv computes, tried once for each module on a few numbers.

A family of models may do in its own `eager_attention_forward` what no argument tells: read a setting of its config, or
a weight of the module. So that function is run beside ours on random q, k and v of the module's sizes.
"""

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn

from qkv._map import attend
from qkv.errors import ArgumentError
from qkv.transformers._settings import EAGER, kind

N_Q, N_K = 3, 5  # more keys than queries, and both odd: what is mixed up does not fit or does not agree
CLOSE = 1e-3  # of the largest output; float32 against float32, where any other formula is off by far more

_TRIED: WeakKeyDictionary[nn.Module, set[tuple[str, ...]]] = WeakKeyDictionary()


def check_family(
    module: nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, masked: bool, how: Mapping[str, Any]
) -> None:
    """Raise an ArgumentError where the module's own attention gives another output.

    query, key, value: as they came, for their heads and widths. masked: whether a mask came.
    how: the settings that were passed, by the names that transformers uses.
    """
    given = tuple(sorted(name for name, value in how.items() if value is not None)) + ("masked",) * masked
    if given in _TRIED.setdefault(module, set()):
        return
    own = list(_own_attention(module))
    if own:
        trial = _trial(query, key, value)
        off = min(_difference(function, module, trial, masked, how) for function in own)
        if not off <= CLOSE:
            raise ArgumentError(
                f"{kind(module)} computes something else from q, k and v than what it says to its attention function: "
                f"it has a setting that qkv does not know; {EAGER}"
            )
    _TRIED[module].add(given)


def _own_attention(module: nn.Module) -> Iterator[Callable[..., Any]]:
    """The eager attention functions in the file that the module's forward is written in; often one, seldom two."""
    written = inspect.unwrap(type(module).forward)
    for name, thing in getattr(written, "__globals__", {}).items():
        if name.endswith("eager_attention_forward") and callable(thing):
            yield thing


def _trial(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """q, k, v, bias and a mask to add, for 3 queries over 5 keys, of the heads and widths that came."""
    n_heads, n_kv_heads = query.shape[1], key.shape[1]
    shapes = [
        (1, n_heads, N_Q, query.shape[-1]), (1, n_kv_heads, N_K, key.shape[-1]), (1, n_kv_heads, N_K, value.shape[-1]),
        (1, n_heads, N_Q, N_K),
    ]  # fmt: skip
    random = torch.Generator("cpu").manual_seed(0)
    drawn = [torch.randn(shape, generator=random, device="cpu") for shape in shapes]
    mask = torch.zeros(1, 1, N_Q, N_K, device="cpu")
    mask[..., 1:, 3] = torch.finfo(mask.dtype).min
    return tuple(tensor.to(query.device) for tensor in (*drawn, mask))


@torch.no_grad()
def _difference(
    function: Callable[..., Any],
    module: nn.Module,
    trial: tuple[torch.Tensor, ...],
    masked: bool,
    how: Mapping[str, Any],
) -> float:
    """The largest difference between the outputs of `function` and of qkv, as a share of the largest output."""
    q, k, v, bias, mask = trial
    how = {**how, "dropout": 0.0, **({"position_bias": bias} if how.get("position_bias") is not None else {})}
    ours = attend(
        q, k, scale=how.get("scaling"), softcap=how.get("softcap"), sinks=how.get("s_aux"),
        bias=how.get("position_bias"), mask=mask == 0 if masked else None,
    ) @ v  # fmt: skip
    try:
        theirs = function(module, q, k, v, mask if masked else None, **how)[0].transpose(1, 2)
    except (RuntimeError, TypeError, ValueError, AttributeError):  # not for this module: a file may hold two of them
        return math.inf
    if theirs.shape != ours.shape:
        return math.inf
    return float((theirs - ours).abs().max() / ours.abs().max())
