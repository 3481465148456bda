"""What every model offers, and what a pass through one leaves behind."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from qkv import _compare
from qkv._map import AttentionMap
from qkv._typing import Array
from qkv.errors import ArgumentError, DTypeError, ShapeError
from qkv.heads import MultiHead


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer of one pass: what came in, what went out, and the attention between."""

    before: Array  # (n_q, d_model)
    after: Array  # (n_q, d_model)
    map: AttentionMap  # (n_heads, n_q, n_k), lazy
    q: Array  # (n_heads, n_q, d_k)
    k: Array  # (n_kv_heads, n_k, d_k)
    v: Array  # (n_kv_heads, n_k, d_v)
    causal: bool
    attention: MultiHead


@dataclass(frozen=True, eq=False)
class Run:
    """One pass of a model over n tokens.

    `output` is what the model is for: (n, d_model) hidden states of an encoder, (n, n_symbols) logits of a
    language model.
    """

    layers: tuple[Layer, ...]
    output: Array

    @property
    def maps(self) -> tuple[AttentionMap, ...]:
        """The attention map of each layer, (n_heads, n_q, n_k); nothing is computed before it is asked."""
        return tuple(layer.map for layer in self.layers)

    def value_norms(self, layer: int) -> Array:
        """‖v_j W_O‖ for each head and key of a layer, (n_heads, n_k): how far the key can move the output."""
        chosen = self.layers[layer]
        norms: Array = chosen.attention.value_norms(chosen.v)
        return norms

    def value_weighted(self, layer: int) -> AttentionMap:
        """The map of a layer with weight · ‖v_j W_O‖ in each cell, as a share of its row: (n_heads, n_q, n_k), lazy."""
        return _compare.value_weighted(self.layers[layer].map, self.value_norms(layer))

    def even(self, layer: int) -> AttentionMap:
        """The map of a layer whose heads see the same keys and prefer none of them: (n_heads, n_q, n_k), lazy."""
        return _compare.even(self.layers[layer].map)


class Pass(Protocol):
    """What any pass over one text leaves to look at, (n_heads, n_q, n_k) in each layer."""

    @property
    def maps(self) -> tuple[AttentionMap, ...]:
        """The attention map of each layer."""

    def value_weighted(self, layer: int) -> AttentionMap | None:
        """The map with weight · ‖v_j W_O‖ in each cell, as a share of its row; None where W_O isn't known."""

    def even(self, layer: int) -> AttentionMap:
        """The map of heads that see the same keys and prefer none of them."""


class Reader(Protocol):
    """A trained model that reads a text and can be looked into, whoever runs it."""

    @property
    def name(self) -> str:
        """What it is called on a page."""

    @property
    def n_layers(self) -> int:
        """Number of attention layers."""

    @property
    def n_heads(self) -> int:
        """Heads in each layer."""

    @property
    def max_length(self) -> int:
        """Most tokens that one pass takes."""

    @property
    def default_text(self) -> str:
        """A text that shows what the heads do."""

    def tokens(self, text: str) -> tuple[Array, list[str]]:
        """The ids of the tokens of a text, (n,), and how each is written."""

    def own(self, ids: Any) -> Array:
        """Which of the ids are the model's own tokens, such as [CLS], and not the text's: bool (n,)."""

    def run(self, ids: Any) -> Pass:
        """One pass over the ids, (n,)."""


class Model(Reader, Protocol):
    """A model that is run here, in NumPy, and shows every layer of a pass."""

    @property
    def causal(self) -> bool:
        """Whether a token sees only those before it and itself."""

    def run(self, ids: Any) -> Run:
        """One pass over the ids, (n,)."""


def check_length(model: str, n: int, max_length: int) -> None:
    """Refuse more tokens than the model has positions for."""
    if n > max_length:
        raise ArgumentError(f"{model} takes at most {max_length} tokens, got {n}; leave out {n - max_length}")


def check_ids(model: str, ids: Any, vocabulary: int) -> Array:
    """The ids as (n,) integers from 0 up to, not including, the size of the vocabulary."""
    array = np.asarray(ids)
    if array.ndim != 1:
        raise ShapeError(f"ids must be one sequence, (n,), got shape {array.shape}; run a batch one by one")
    if array.size and array.dtype.kind not in "iu":
        raise DTypeError(f"ids must be integers, got {array.dtype}; model.tokens(text) gives them")
    strange = array[(array < 0) | (array >= vocabulary)]
    if strange.size:
        raise ArgumentError(f"ids of {model} run from 0 to {vocabulary - 1}, got {strange[0]}")
    return array.astype(np.intp)
