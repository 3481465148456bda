"""DINOv2-small, fine-tuned for saliency, from an ONNX graph: an image encoder, patches of 14 pixels and a CLS token.

The graph keeps transformers' names for everything but the matrices of its dense maps. Such a matrix is the constant of
a MatMul whose result is added to a bias that still has its name.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

ROOT = "backbone."
WIDTH = 384
CONFIG: dict[str, Any] = {
    "architectures": ["Dinov2Model"], "model_type": "dinov2", "hidden_size": WIDTH, "num_hidden_layers": 12,
    "num_attention_heads": 6, "mlp_ratio": 4, "image_size": 518, "patch_size": 14, "num_channels": 3,
    "qkv_bias": True, "layer_norm_eps": 1e-6, "layerscale_value": 1.0, "hidden_act": "gelu",
    "use_swiglu_ffn": False, "dtype": "float32",
}  # fmt: skip


def write(out: Path, package: Path) -> None:
    """Write the backbone as a folder of transformers."""
    import onnx
    from safetensors.numpy import save_file

    graph = onnx.load(package / "models" / "vit_s_focus.onnx").graph
    constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    arrays = {name.removeprefix(ROOT): value for name, value in constants.items() if name.startswith(ROOT)}
    for name, matrix in matrices(graph, constants):
        arrays[f"{name}.weight"] = np.ascontiguousarray(matrix.T)
    arrays["embeddings.position_embeddings"] = places(constants)
    arrays["embeddings.mask_token"] = np.zeros((1, WIDTH), np.float32)  # for training only; the graph has none
    save_file(arrays, out / "model.safetensors", {"format": "pt"})
    (out / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")


def matrices(graph: Any, constants: dict[str, Any]) -> Any:
    """The name of each dense map, and its matrix as the graph multiplies by it, (in, out)."""
    reads: dict[str, list[Any]] = {}
    for node in graph.node:
        for name in node.input:
            reads.setdefault(name, []).append(node)
    for node in graph.node:
        if node.op_type == "MatMul" and node.input[1] in constants:
            added = {name for after in reads[node.output[0]] if after.op_type == "Add" for name in after.input}
            (bias,) = (name for name in added & constants.keys() if name.startswith(ROOT))
            yield bias.removeprefix(ROOT).removesuffix(".bias"), constants[node.input[1]]


def places(constants: dict[str, Any]) -> Any:
    """The position of CLS, then those of the patches, (1, 1 + patches, width): two constants without a name."""
    patches = (CONFIG["image_size"] // CONFIG["patch_size"]) ** 2
    nameless = [value for name, value in constants.items() if not name.startswith(ROOT)]
    parts = [[each for each in nameless if each.shape == (1, count, WIDTH)] for count in (1, patches)]
    (cls,), (rest,) = parts
    return np.concatenate([cls, rest], axis=1)
