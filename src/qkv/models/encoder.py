"""The transformer encoder of BERT, in NumPy on `MultiHead`.

A layer attends, adds, normalises, then widens, bends, narrows, adds and normalises again.
Source: Devlin et al. 2018, in the post-norm form of Vaswani et al. 2017.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from qkv._map import attend
from qkv._typing import Array
from qkv.errors import ArgumentError
from qkv.heads import MultiHead
from qkv.models._norm import LayerNorm
from qkv.models._run import Layer, Run, check_ids, check_length


def gelu(x: Array) -> Array:
    """The exact x · Φ(x), not the tanh approximation; erf is taken in float64 (Hendrycks and Gimpel 2016)."""
    erf = np.fromiter(map(math.erf, (x / math.sqrt(2)).ravel().tolist()), np.float64, x.size)
    return (0.5 * x * (1 + erf.reshape(x.shape))).astype(x.dtype)


@dataclass(frozen=True, eq=False)
class Block:
    """One layer: self-attention and two dense maps, each with a residual and a norm after it."""

    attention: MultiHead
    attended: LayerNorm
    w_in: Array  # (d_model, d_hidden)
    b_in: Array
    w_out: Array  # (d_hidden, d_model)
    b_out: Array
    blended: LayerNorm

    def __call__(self, x: Array) -> Layer:
        """Run over (n, d_model) rows, and keep the map."""
        q, k, v = self.attention.project(x)
        weights = attend(q, k)
        y = self.attended(x + self.attention.combine(weights @ v))
        wide = gelu(y @ self.w_in + self.b_in)
        after = self.blended(y + (wide @ self.w_out + self.b_out))
        return Layer(x, after, weights, q, k, v, causal=False, attention=self.attention)


@dataclass(frozen=True, eq=False)
class Encoder:
    """Embeddings of words, positions and the first segment, then the layers."""

    words: Array  # (vocabulary, d_model)
    positions: Array  # (max_length, d_model)
    segment: Array  # (d_model,)
    norm: LayerNorm
    blocks: tuple[Block, ...]

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], config: Mapping[str, Any]) -> Self:
        """An encoder from the named arrays and the config.json of a BertModel."""
        for option, known in (("hidden_act", "gelu"), ("position_embedding_type", "absolute")):
            if config.get(option, known) != known:
                raise ArgumentError(f"config must have {option} = {known!r}, got {config[option]!r}")
        eps, n_heads = float(config["layer_norm_eps"]), int(config["num_attention_heads"])
        layers = range(int(config["num_hidden_layers"]))
        return cls(
            words=arrays["embeddings.word_embeddings.weight"],
            positions=arrays["embeddings.position_embeddings.weight"],
            segment=arrays["embeddings.token_type_embeddings.weight"][0],
            norm=_norm(arrays, "embeddings.LayerNorm", eps),
            blocks=tuple(_block(arrays, f"encoder.layer.{i}", n_heads, eps) for i in layers),
        )

    @property
    def max_length(self) -> int:
        """Most tokens that one pass takes."""
        return len(self.positions)

    def run(self, ids: Any) -> Run:
        """One pass over the ids, (n,); the output is the last hidden state, (n, d_model)."""
        rows = check_ids("the encoder", ids, len(self.words))
        check_length("the encoder", len(rows), self.max_length)
        x = self.norm(self.words[rows] + self.segment + self.positions[: len(rows)])
        layers = []
        for block in self.blocks:
            layers.append(block(x))
            x = layers[-1].after
        return Run(tuple(layers), x)


def _norm(arrays: Mapping[str, Array], name: str, eps: float) -> LayerNorm:
    return LayerNorm(arrays[f"{name}.weight"], arrays[f"{name}.bias"], eps)


def _block(arrays: Mapping[str, Array], name: str, n_heads: int, eps: float) -> Block:
    parts = {"q": "self.query", "k": "self.key", "v": "self.value", "o": "output.dense"}
    names = {f"w_{part}": f"{name}.attention.{dense}.weight" for part, dense in parts.items()}
    names |= {f"b_{part}": f"{name}.attention.{dense}.bias" for part, dense in parts.items()}
    return Block(
        attention=MultiHead.from_arrays(arrays, names, n_heads, transpose=True),
        attended=_norm(arrays, f"{name}.attention.output.LayerNorm", eps),
        w_in=arrays[f"{name}.intermediate.dense.weight"].T,
        b_in=arrays[f"{name}.intermediate.dense.bias"],
        w_out=arrays[f"{name}.output.dense.weight"].T,
        b_out=arrays[f"{name}.output.dense.bias"],
        blended=_norm(arrays, f"{name}.output.LayerNorm", eps),
    )
