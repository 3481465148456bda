"""Whole models from their configs: every attention layer and, for a few families, all the rest.

For any other family the attention is counted, as the plain layer that its sizes describe, and nothing is claimed about
the rest.
"""

from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from qkv.cost._config import Fields, refuse_unknown, windows
from qkv.cost._families import FAMILIES, FeedForward, Part, patch_tokens
from qkv.cost._layer import Cost, Layer, Window, layer
from qkv.errors import ArgumentError

# Public facts, under the names of transformers: Devlin et al. 2018, Radford et al. 2019, Dosovitskiy et al. 2020, and
# the model card of Llama 3.
MODELS: dict[str, dict[str, Any]] = {
    "bert-base": {
        "model_type": "bert", "hidden_size": 768, "num_attention_heads": 12, "num_hidden_layers": 12,
        "intermediate_size": 3072, "vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2,
    },
    "gpt2": {
        "model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_layer": 12, "vocab_size": 50257, "n_positions": 1024,
    },
    "vit-b-16": {
        "model_type": "vit", "hidden_size": 768, "num_attention_heads": 12, "num_hidden_layers": 12,
        "intermediate_size": 3072, "image_size": 224, "patch_size": 16, "num_channels": 3, "qkv_bias": True,
    },
    "llama-3-8b": {
        "model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
        "num_hidden_layers": 32, "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 8192,
        "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": False,
    },
}  # fmt: skip


@dataclass(frozen=True)
class Model:
    """A stack of equal layers; `model` makes one from a config.

    windows: for each layer (left, right) as in `qkv.attend`, or None. positions: the most tokens it was built for,
    where the config says. feed_forward, parts, counted_as: of a family that is counted whole, else None.
    """

    name: str
    layer: Layer
    windows: tuple[Window | None, ...]
    causal: bool
    positions: int | None
    feed_forward: FeedForward | None
    parts: tuple[Part, ...] | None
    counted_as: str | None

    @property
    def n_layers(self) -> int:
        """How many layers."""
        return len(self.windows)

    @property
    def parameters(self) -> dict[str, int]:
        """Numbers by where they are: attention, and for a family that is counted whole feed-forward and parts."""
        found = {"attention": self.n_layers * self.layer.parameters}
        if self.feed_forward is not None and self.parts is not None:
            found["feed-forward"] = self.n_layers * self.feed_forward.parameters
            found |= {part.name: part.parameters for part in self.parts}
        return found

    def cost(self, n: int | None = None, *, cached: int = 0, batch: int = 1, dtype: str = "float32") -> "ModelCost":
        """What one pass costs over n tokens, by default as many as the model was built for, after `cached` others."""
        n = self.positions if n is None else n
        if n is None:
            raise ArgumentError("n must be given: the config does not say how many tokens the model was built for")
        if cached and not self.causal:
            raise ArgumentError(f"cached must be 0 for {self.name}, got {cached}: its tokens see the tokens after them")
        by_window = {
            window: self.layer.cost(n, causal=self.causal, window=window, cached=cached, batch=batch, dtype=dtype)
            for window in set(self.windows)
        }
        other = {}
        if self.feed_forward is not None and self.parts is not None:
            rows = {"all": n, "patches": n - 1, "one": 1}
            other["feed-forward"] = self.n_layers * self.feed_forward.multiply_adds(n) * batch
            other |= {part.name: part.multiply_adds * rows[part.rows] * batch for part in self.parts}
        return ModelCost(tuple(by_window[window] for window in self.windows), self.causal, other)


@dataclass(frozen=True)
class ModelCost:
    """What one pass through a model costs: the cost of attention in each layer, and multiply-adds of all else by name.

    other is empty for a family that is not counted whole.
    """

    layers: tuple[Cost, ...]
    causal: bool
    other: dict[str, int]

    @property
    def attention(self) -> int:
        """Multiply-adds of attention in all layers."""
        return sum(each.multiply_adds for each in self.layers)

    @property
    def multiply_adds(self) -> int | None:
        """All multiply-adds; None for a family that is not counted whole."""
        return self.attention + sum(self.other.values()) if self.other else None

    @property
    def weights_bytes(self) -> int:
        """Bytes of the weights of all layers, where all are stored."""
        return sum(each.weights_bytes for each in self.layers)

    @property
    def kv_cache_bytes(self) -> int | None:
        """Bytes of the cache of all layers after the pass; None for a model that is not causal."""
        return sum(each.kv_cache_bytes for each in self.layers) if self.causal else None


def model(config: Any, *, causal: bool | None = None, biases: str | None = None) -> Model:
    """A model from a name of MODELS, a mapping such as the content of a config.json, or a config of transformers.

    causal, biases: whether a token sees only those before it, and which of the projections q, k, v, o have a bias.
    The configs of most families do not say so, and then both are needed; where it is known, what is given must agree.

    >>> model("gpt2").layer.parameters, sum(model("gpt2").parameters.values())
    (2362368, 124439808)
    """
    name = config if isinstance(config, str) else ""
    if name and name not in MODELS:
        near = get_close_matches(name, MODELS, n=1)
        raise ArgumentError(f"model must be {', '.join(MODELS)}, got {name!r}" + (f"; {near[0]}?" if near else ""))
    fields = Fields(MODELS[name] if name else config)
    refuse_unknown(fields)
    family = FAMILIES.get(fields.family)
    sizes, n_layers = _layer(fields), fields.needed_size("n_layers")
    known_causal = True if fields.switch("is_decoder", default=False) else family.causal if family else None
    known_biases = family.biases(fields) if family else None
    causal, biases = _settle(fields, causal=(causal, known_causal), biases=(biases, known_biases))
    return Model(
        name=name or fields.family or "model",
        layer=replace(sizes, biases=biases),
        windows=windows(fields, n_layers, causal=causal, everywhere=bool(family and family.window_everywhere)),
        causal=causal,
        positions=patch_tokens(fields) if fields.family == "vit" else fields.size("positions"),
        feed_forward=family.feed_forward(fields, sizes.d_model) if family else None,
        parts=family.parts(fields, sizes.d_model, n_layers) if family else None,
        counted_as=family.counted_as if family else None,
    )


def _layer(fields: Fields) -> Layer:
    """The layer of the sizes that the config has, without biases."""
    d_model, n_heads, d_k = fields.needed_size("d_model"), fields.needed_size("n_heads"), fields.size("d_k")
    if d_k is None and d_model % n_heads:
        raise ArgumentError(f"config has no head_dim, and its {n_heads} heads do not divide its width {d_model}")
    return layer(d_model, n_heads, fields.size("n_kv_heads"), d_k=d_k)


def _settle(fields: Fields, **pairs: tuple[Any, Any]) -> tuple[Any, ...]:
    """For each name what the caller gives or what is known; both must agree, and one of them must be there."""
    if missing := [name for name, (given, known) in pairs.items() if given is None and known is None]:
        which = f"of model_type {fields.family!r} " if fields.family else ""
        raise ArgumentError(f"config {which}does not say {' and '.join(missing)}, which must be given")
    for name, (given, known) in pairs.items():
        if None not in {given, known} and given != known:
            raise ArgumentError(f"{name} = {given!r} contradicts the config, by which it is {known!r}")
    return tuple(known if given is None else given for given, known in pairs.values())
