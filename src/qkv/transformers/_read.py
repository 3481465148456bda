"""Mask functions of transformers, read into values of `qkv.masks`.

transformers describes a mask as a function of four index tensors (batch, head, query, key), put together from a few
factories of `transformers.masking_utils`. Those are known by their name, and their arguments are read; any other
function is asked tile by tile. A name may come to mean something else, so each is tried on a small mask first.
"""

from collections.abc import Callable
from functools import cache, reduce
from typing import Any

import numpy as np
import torch
from transformers import masking_utils

from qkv import masks
from qkv._map import attend
from qkv._typing import Array
from qkv.transformers._asked import Asked
from qkv.transformers._place import Place

Function = Callable[..., Any]


def read(function: Function, place: Place, vmap: bool = False) -> masks.Mask | None:
    """The mask that a function describes, None where everybody sees everybody."""
    name, arguments = _made_by(function)
    if name in {"and_masks", "or_masks"} and arguments.keys() == {"mask_functions"}:
        parts = [read(part, place, vmap) for part in arguments["mask_functions"]]
        some = [part for part in parts if part is not None]
        if name == "and_masks":
            return reduce(lambda a, b: a & b, some) if some else None
        return reduce(lambda a, b: a | b, some) if len(some) == len(parts) else None
    if name in READERS and believed(name):
        return READERS[name](place, **arguments)
    return Asked(function, place, vmap)


def _made_by(function: Function) -> tuple[str, dict[str, Any]]:
    """The factory in `masking_utils` that a function comes from, and the arguments that it was given."""
    code = getattr(function, "__code__", None)
    if code is None or getattr(function, "__module__", "") != masking_utils.__name__:
        return "", {}
    cells = function.__closure__ or ()
    given = dict(zip(code.co_freevars, (cell.cell_contents for cell in cells), strict=True))
    return function.__qualname__.partition(".")[0], given


def _causal(place: Place) -> masks.Mask:
    return masks.causal(place.offset)


def _window(place: Place, sliding_window: int) -> masks.Mask:
    if sliding_window < 1:  # Qwen2-MoE makes a window of 0, which no layer of it takes
        return ~masks.causal(place.q_offset - place.kv_offset - sliding_window)
    return masks.window(sliding_window - 1, None, place.offset)  # the query's own key counts in transformers


def _window_both_ways(place: Place, sliding_window: int) -> masks.Mask:
    return masks.window(sliding_window, sliding_window, place.offset)


def _chunks(place: Place, chunk_size: int, left_padding: torch.Tensor) -> masks.Mask:
    first = left_padding.numpy(force=True)[:, None]
    return masks.segments((place.queries - first) // chunk_size, (place.keys - first) // chunk_size)


def _packed(place: Place, packed_sequence_mask: torch.Tensor) -> masks.Mask:
    ids = packed_sequence_mask.numpy(force=True)
    return masks.segments(ids[:, place.queries], ids[:, place.keys])


def _blocks(place: Place, block_sequence_ids: torch.Tensor) -> masks.Mask:
    ids = block_sequence_ids.numpy(force=True)
    q, k = ids[:, place.queries], ids[:, place.keys]
    return masks.segments(np.where(q < 0, -1, q), np.where(k < 0, -2, k))  # a negative id belongs to no block


def _padding(place: Place, padding_mask: torch.Tensor) -> masks.Mask | None:
    return visible_keys(padding_mask.numpy(force=True)[:, place.keys])


def visible_keys(keys: Array) -> masks.Mask | None:
    """Padding as a mask: bool, (batch, n_k)."""
    keys = keys.astype(bool)
    if keys.all():
        return None
    count = keys.sum(-1)
    if np.array_equal(keys, np.arange(keys.shape[-1]) < count[:, None]):
        return masks.lengths(count)
    return masks.dense(keys[:, None, None, :])


READERS: dict[str, Callable[..., masks.Mask | None]] = {
    "causal_mask_function": _causal,
    "bidirectional_mask_function": lambda _place: None,
    "sliding_window_overlay": _window,
    "sliding_window_bidirectional_overlay": _window_both_ways,
    "chunked_overlay": _chunks,
    "packed_sequence_mask_function": _packed,
    "blockwise_overlay": _blocks,
    "padding_mask_function": _padding,
}
_IDS = torch.tensor([[0, 0, 0, 1, 1, 1, -1, 2], [0, 1, 1, 1, 1, -1, -1, 2]], device="cpu")
TRIALS: dict[str, tuple[Any, ...]] = {
    "sliding_window_overlay": (3,),
    "sliding_window_bidirectional_overlay": (2,),
    "chunked_overlay": (3, torch.tensor([0, 2], device="cpu")),
    "packed_sequence_mask_function": (_IDS,),
    "blockwise_overlay": (_IDS,),
    "padding_mask_function": (_IDS > 0,),
}


@cache
def believed(name: str) -> bool:
    """Whether the factory of this name makes what its reader takes it for, on a mask of 4 queries over 7 keys."""
    place = Place(batch=2, n_q=4, n_k=7, q_offset=4, kv_offset=1)
    factory: Any = getattr(masking_utils, name, None)
    try:
        function = factory(*TRIALS[name]) if name in TRIALS else factory
        rule = READERS[name](place, **_made_by(function)[1])
    except TypeError:  # it takes other arguments than it did
        return False
    return np.array_equal(_cells(rule, place), _cells(Asked(function, place), place))


def _cells(rule: masks.Mask | None, place: Place) -> Array:
    """The mask as a dense array; small masks only."""
    even = attend(np.zeros((*place.shape[:3], 1)), np.zeros((place.batch, 1, place.n_k, 1)), mask=rule)
    return np.asarray(even) > 0
