"""A folder that transformers can read, as a model that reads text and can be looked into."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from qkv import _compare
from qkv._map import AttentionMap
from qkv._typing import Array
from qkv.errors import ArgumentError, MissingError
from qkv.models._run import check_length
from qkv.tracing._trace import Trace, trace
from qkv.tracing._written import written

FOLDERS = Path(sys.prefix) / "share" / "qkv-models"  # where `make models` puts folders, known by their name alone
MAX_LENGTH = 1 << 20  # of a tokenizer that names no limit
# What transformers raises for a folder that it cannot read, or that holds a model it doesn't know.
UNREADABLE = (OSError, ValueError, KeyError, ImportError, AttributeError, RuntimeError)


@dataclass(frozen=True, eq=False)
class Reading:
    """One pass over one text."""

    trace: Trace

    @property
    def maps(self) -> tuple[AttentionMap, ...]:
        """The attention map of each layer, (n_heads, n_q, n_k), in NumPy."""
        return tuple(each[0] for each in self.trace.maps)

    def value_weighted(self, layer: int) -> AttentionMap | None:
        """The map with weight · ‖v_j W_O‖ in each cell, as a share of its row; None where W_O isn't known."""
        moved = self.trace.value_weighted(layer)
        return None if moved is None else moved[0]

    def even(self, layer: int) -> AttentionMap:
        """The map of heads that see the same keys and prefer none of them."""
        first: AttentionMap = self.trace.even(layer)[0]
        return first


@dataclass(frozen=True, eq=False)
class Pretrained:
    """A model of transformers and its tokenizer. Of a model with an encoder and a decoder, the encoder."""

    name: str
    model: Any
    tokenizer: Any
    n_layers: int
    n_heads: int
    max_length: int

    default_text = "The cat sat on the mat because it was tired."

    def tokens(self, text: str) -> tuple[Array, list[str]]:
        """The ids of the tokens of a text, (n,), and how each is written."""
        ids = self.tokenizer(text)["input_ids"]
        check_length(self.name, len(ids), self.max_length)
        return np.array(ids, np.intp), written(
            self.tokenizer.convert_ids_to_tokens(ids), "Ġ" in self.tokenizer.get_vocab()
        )

    def own(self, ids: Any) -> Array:
        """Which of the ids are special tokens: bool (n,)."""
        return np.isin(ids, self.tokenizer.all_special_ids)

    def run(self, ids: Any) -> Reading:
        """One pass over the ids, (n,)."""
        seen = _trace(self.model, ids)
        return Reading(replace(seen, maps=tuple(_compare.in_numpy(each) for each in seen.maps)))


def pretrained(folder: Path | str, name: str | None = None) -> Pretrained:
    """The model and tokenizer of a folder that `save_pretrained` wrote, in float32; nothing is downloaded.

    name: what it is called, by default as the folder. Raises ArgumentError for a folder that can't be read, or whose
    model takes no text or has no attention that comes here.
    """
    place = Path(folder)
    try:
        import torch
        import transformers
    except ModuleNotFoundError as error:
        raise MissingError(f"a folder of transformers needs {error.name}: pip install torch transformers") from None
    local = {"local_files_only": True, "trust_remote_code": False}
    if not (place / "config.json").is_file():
        raise ArgumentError(f"{place} has no config.json; expected a folder that save_pretrained wrote")
    with _quiet(transformers):
        try:
            model = transformers.AutoModel.from_pretrained(place, dtype=torch.float32, **local).eval()
        except UNREADABLE as error:
            raise ArgumentError(f"transformers cannot load {place}: {_first_line(error)}") from error
        if model.main_input_name != "input_ids":
            raise ArgumentError(
                f"{place} is a {type(model).__name__}, which takes {model.main_input_name} and no text; in Python, "
                "qkv.trace(model, inputs) looks into it"
            )
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(place, **local)
        except UNREADABLE as error:
            raise ArgumentError(f"{place} has no tokenizer that transformers can load: {_first_line(error)}") from error
        model = model.get_encoder() if model.config.is_encoder_decoder else model
        tried = _trace(model, tokenizer("a")["input_ids"] or [0])
    heads = {each.shape[1] for each in tried.maps}
    if len(heads) > 1:
        raise ArgumentError(f"the layers of {place} have {sorted(heads)} heads; expected one number for all")
    limits = (getattr(model.config, "max_position_embeddings", None), tokenizer.model_max_length, MAX_LENGTH)
    return Pretrained(
        name or place.resolve().name, model, tokenizer, len(tried), heads.pop(), min(filter(None, limits))
    )


def _trace(model: Any, ids: Any) -> Trace:
    """One pass over the ids, (n,), without a cache."""
    import torch

    tensor = torch.as_tensor(np.asarray(ids), device=model.device)[None]
    return trace(model, {"input_ids": tensor, "attention_mask": torch.ones_like(tensor)})


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Without progress bars and load reports, which say nothing here that an error doesn't."""
    log = transformers.utils.logging
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity(log.CRITICAL)
    log.disable_progress_bar()
    try:
        yield
    finally:
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()
