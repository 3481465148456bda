"""A causal model of two attention layers that learned to copy: what followed this symbol last time?

Heads of the first layer attend to the previous position; heads of the second to the position after the last
time the same symbol stood. Those are the induction heads of Elhage et al. 2021 and Olsson et al. 2022. The 64
symbols of the vocabulary carry no meaning; they are written with the characters of `ALPHABET`, token id = place
in it. `examples/train_induction.py` trains such a model in two minutes.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from qkv._map import attend
from qkv._typing import Array
from qkv.errors import ArgumentError
from qkv.heads import KVCache, MultiHead
from qkv.models._files import weights
from qkv.models._norm import LayerNorm
from qkv.models._run import Layer, Run, check_ids, check_length

ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ."
N_HEADS = 4
EPS = 1e-5  # what torch.nn.LayerNorm adds unless told otherwise; the model was trained with it


@dataclass(frozen=True, eq=False)
class Block:
    """One layer: positions join the queries and keys only, so that values carry nothing but symbols."""

    norm: LayerNorm
    attention: MultiHead

    def __call__(self, x: Array, positions: Array, step: ExitStack, cache: KVCache) -> Layer:
        """Run over (n, d_model) rows that follow those in the cache, and keep the map."""
        y = self.norm(x)
        q, k, v = self.attention.project(y + positions, values=y)
        all_k, all_v = step.enter_context(cache.appending(k, v))
        weights_so_far = attend(q, all_k, causal=True)
        after = x + self.attention.combine(weights_so_far @ all_v)
        return Layer(x, after, weights_so_far, q, all_k, all_v, causal=True, attention=self.attention)


@dataclass(frozen=True, eq=False)
class Induction:
    """The two layers between an embedding and an unembedding of the symbols."""

    symbols: Array  # (64, d_model)
    positions: Array  # (max_length, d_model)
    blocks: tuple[Block, ...]
    norm: LayerNorm
    unembed: Array  # (d_model, 64)

    name = "induction"
    causal = True
    default_text = "7fKz.q2Rb9XmWe" * 3  # 14 symbols without order, three times

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Self:
        """The model from its named arrays, as `examples/train_induction.py` saves them."""
        layers = range(sum(name.endswith(".q.weight") for name in arrays))
        return cls(
            symbols=arrays["e.weight"],
            positions=arrays["pos"],
            blocks=tuple(_block(arrays, f"b.{i}") for i in layers),
            norm=LayerNorm(arrays["ln.weight"], arrays["ln.bias"], EPS),
            unembed=arrays["u.weight"].T,
        )

    @property
    def n_layers(self) -> int:
        """Number of attention layers."""
        return len(self.blocks)

    @property
    def n_heads(self) -> int:
        """Heads in each layer."""
        return N_HEADS

    @property
    def max_length(self) -> int:
        """Most tokens that one pass takes."""
        return len(self.positions)

    def tokens(self, text: str) -> tuple[Array, list[str]]:
        """The id of each character, (n,), and the character; a space is written ␣."""
        if strange := sorted(set(text) - set(ALPHABET)):
            raise ArgumentError(f"text may hold a-z, A-Z, 0-9, space and full stop, got {' '.join(map(repr, strange))}")
        check_length(self.name, len(text), self.max_length)
        return np.array([ALPHABET.index(c) for c in text], np.intp), ["␣" if c == " " else c for c in text]

    def own(self, ids: Any) -> Array:
        """None of the ids: the model has no tokens but those of the text: bool (n,)."""
        return np.zeros(len(ids), bool)

    def caches(self) -> tuple[KVCache, ...]:
        """An empty cache for each layer, to run step by step."""
        return tuple(KVCache() for _ in self.blocks)

    def run(self, ids: Any, caches: Sequence[KVCache] | None = None) -> Run:
        """One pass over the ids, (n,); the output is the logits of the symbol that follows each, (n, 64).

        With caches the ids follow those that the caches have seen: chunks of any size give what one pass
        gives, and a pass that fails leaves every cache as it was.
        """
        kept = self.caches() if caches is None else caches
        if len(kept) != self.n_layers:
            raise ArgumentError(f"caches must be one for each of {self.n_layers} layers, got {len(kept)}")
        if len({len(cache) for cache in kept}) > 1:
            raise ArgumentError(
                f"caches of one pass hold equally many keys, got {[len(cache) for cache in kept]}; "
                f"model.caches() starts anew"
            )
        rows, start = check_ids(self.name, ids, len(self.symbols)), len(kept[0])
        check_length(self.name, start + len(rows), self.max_length)
        x, layers = self.symbols[rows], []
        with ExitStack() as step:  # a pass that fails half way leaves no cache ahead of the others
            for block, cache in zip(self.blocks, kept, strict=True):
                layers.append(block(x, self.positions[start : start + len(rows)], step, cache))
                x = layers[-1].after
            return Run(tuple(layers), self.norm(x) @ self.unembed)


def load() -> Induction:
    """The model whose weights come with this package."""
    path = Path(__file__).with_name("induction.safetensors")
    return Induction.from_arrays(weights(path, "pip install --force-reinstall --no-deps qkv"))


def _block(arrays: Mapping[str, Array], name: str) -> Block:
    names = {f"w_{part}": f"{name}.{part}.weight" for part in "qkvo"}
    norm = LayerNorm(arrays[f"{name}.ln.weight"], arrays[f"{name}.ln.bias"], EPS)
    return Block(norm, MultiHead.from_arrays(arrays, names, N_HEADS, transpose=True))
