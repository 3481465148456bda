"""What no config says about the models of a family: causal or not, which biases, and all that is beside attention.

Each family here is counted whole, and held by a test to the class of transformers that it is `counted_as`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from qkv.cost._config import Fields


@dataclass(frozen=True)
class FeedForward:
    """The layer after attention: d_model -> d_ff -> d_model, with a second matrix of d_ff beside the first if gated."""

    d_model: int
    d_ff: int
    gated: bool
    bias: bool

    @property
    def parameters(self) -> int:
        """Numbers in its matrices and biases."""
        biases = (2 if self.gated else 1) * self.d_ff + self.d_model
        return self.multiply_adds(1) + (biases if self.bias else 0)

    def multiply_adds(self, rows: int) -> int:
        """On this many tokens."""
        return rows * (3 if self.gated else 2) * self.d_model * self.d_ff


@dataclass(frozen=True)
class Part:
    """What a model has once, beside attention and feed-forward: parameters, and multiply-adds for each row it is given.

    rows: "all" tokens, "patches" (all tokens but the class token), or "one".
    """

    name: str
    parameters: int
    multiply_adds: int = 0
    rows: str = "all"


@dataclass(frozen=True)
class Family:
    """How the models of one model_type are built.

    biases, feed_forward, parts are made from the settings, d_model and the number of layers. window_everywhere: a
    sliding_window without layer_types holds in every layer.
    """

    counted_as: str
    causal: bool
    biases: Callable[[Fields], str]
    feed_forward: Callable[[Fields, int], FeedForward]
    parts: Callable[[Fields, int, int], tuple[Part, ...]]
    window_everywhere: bool = False


def patch_tokens(fields: Fields) -> int:
    """Tokens of an image: its patches and the class token."""
    return (fields.needed("image_size") // fields.needed("patch_size")) ** 2 + 1


def _bert_parts(fields: Fields, d: int, n_layers: int) -> tuple[Part, ...]:
    rows = fields.needed("vocab_size") + fields.needed_size("positions") + fields.needed("type_vocab_size")
    return (
        Part("embeddings", rows * d),
        Part("norms", 2 * d * (1 + 2 * n_layers)),
        Part("pooler", d * d + d, d * d, "one"),
    )


def _gpt2_parts(fields: Fields, d: int, n_layers: int) -> tuple[Part, ...]:
    rows = fields.needed("vocab_size") + fields.needed_size("positions")
    return (
        Part("embeddings", rows * d),
        Part("norms", 2 * d * (2 * n_layers + 1)),
        _logits(fields, d, tied=True),
    )


def _vit_parts(fields: Fields, d: int, n_layers: int) -> tuple[Part, ...]:
    area = fields.needed("patch_size") ** 2 * fields.needed("num_channels")
    return (
        Part("patches", area * d + d, area * d, "patches"),
        Part("positions", (patch_tokens(fields) + 1) * d),  # the class token is learned, too
        Part("norms", 2 * d * (2 * n_layers + 1)),
    )


def _llama_parts(fields: Fields, d: int, n_layers: int) -> tuple[Part, ...]:
    return (
        Part("embeddings", fields.needed("vocab_size") * d),
        Part("norms", d * (2 * n_layers + 1)),
        _logits(fields, d, tied=False),
    )


def _logits(fields: Fields, d: int, *, tied: bool) -> Part:
    """The way back to the vocabulary; tied: with the matrix of the embeddings, unless the config says otherwise."""
    matrix = fields.needed("vocab_size") * d
    return Part("logits", 0 if fields.switch("tie_word_embeddings", tied) else matrix, matrix)


def _two_matrices(fields: Fields, d: int) -> FeedForward:
    return FeedForward(d, fields.needed_size("d_ff"), gated=False, bias=True)


def _gpt2_two_matrices(fields: Fields, d: int) -> FeedForward:
    return FeedForward(d, fields.size("d_ff") or 4 * d, gated=False, bias=True)


def _gated(fields: Fields, d: int) -> FeedForward:
    return FeedForward(d, fields.needed_size("d_ff"), gated=True, bias=fields.switch("mlp_bias", default=False))


def _all(_: Fields) -> str:
    return "qkvo"


def _none(_: Fields) -> str:
    return ""


def _not_on_the_output(_: Fields) -> str:
    return "qkv"


def _vit_biases(fields: Fields) -> str:
    return "qkvo" if fields.switch("qkv_bias", default=True) else "o"


def _llama_biases(fields: Fields) -> str:
    return "qkvo" if fields.switch("attention_bias", default=False) else ""


FAMILIES = {
    "bert": Family("BertModel", False, _all, _two_matrices, _bert_parts),
    "gpt2": Family("GPT2LMHeadModel", True, _all, _gpt2_two_matrices, _gpt2_parts),
    "vit": Family("ViTModel without pooler", False, _vit_biases, _two_matrices, _vit_parts),
    "llama": Family("LlamaForCausalLM", True, _llama_biases, _gated, _llama_parts),
    "mistral": Family("MistralForCausalLM", True, _none, _gated, _llama_parts, window_everywhere=True),
    "qwen2": Family("Qwen2ForCausalLM", True, _not_on_the_output, _gated, _llama_parts),
}
