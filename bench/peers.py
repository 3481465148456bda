"""Other libraries, each as it is called for speed on a CPU: from q, k and v to a call, and to what it answers.

Every peer gets the number of threads by its own setting, beside those of the process (`tables.py` sets them before
anything is imported). Setup, layouts that a library wants otherwise, and compilation are done before the turns.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from problems import Arrays, Shape
from turns import Missing

import qkv


class Call(NamedTuple):
    """A call that takes turns, and how its answer becomes an array (1, heads, n_q, d)."""

    call: Callable[[], Any]
    answer: Callable[[Any], np.ndarray] = np.asarray


def own(shape: Shape, given: Arrays, threads: int) -> Call:
    qkv.set_num_threads(threads)
    q, k, v = given
    return Call(lambda: qkv.attention(q, k, v, causal=shape.causal))


def _float32_only(given: Arrays, why: str) -> None:
    if given[0].dtype != np.float32:
        raise Missing(why)


def tensor(array: np.ndarray) -> Any:
    """The array as a tensor, on the same memory; torch reads no bfloat16 of NumPy."""
    import torch

    if array.dtype.name != "bfloat16":
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)


def _tensors(given: Arrays, threads: int) -> tuple[Any, list[Any]]:
    import torch

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    return torch, [tensor(each) for each in given]


def _from_tensor(out: Any) -> np.ndarray:
    return out.float().numpy()


def sdpa(shape: Shape, given: Arrays, threads: int) -> Call:
    torch, (q, k, v) = _tensors(given, threads)
    attend = torch.nn.functional.scaled_dot_product_attention
    grouped = shape.keyed != shape.heads
    return Call(lambda: attend(q, k, v, is_causal=shape.causal, enable_gqa=grouped), _from_tensor)


def flex(shape: Shape, given: Arrays, threads: int) -> Call:
    """torch's FlexAttention, compiled for this shape alone: past its limit of recompilations dynamo stops compiling."""
    torch, (q, k, v) = _tensors(given, threads)
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    torch.compiler.reset()
    attend = torch.compile(flex_attention, dynamic=False, fullgraph=True)
    mask = None
    if shape.causal:
        mask = create_block_mask(lambda _batch, _head, i, j: i >= j, None, None, shape.n_q, shape.n_k, device="cpu")
    return Call(lambda: attend(q, k, v, block_mask=mask), _from_tensor)


def torch_eager(shape: Shape, given: Arrays, threads: int) -> Call:
    """Three lines of torch; whole matrices."""
    torch, (q, k, v) = _tensors(given, threads)
    hidden = torch.full((shape.n_q, shape.n_k), -math.inf, dtype=q.dtype).triu(1) if shape.causal else None

    def call() -> Any:
        score = (q @ k.mT).mul_(1 / math.sqrt(shape.d))
        if hidden is not None:
            score += hidden
        return score.softmax(-1) @ v

    return Call(call, _from_tensor)


def numpy_eager(shape: Shape, given: Arrays, _threads: int) -> Call:
    """The same in NumPy, each step written in place; its threads are those of the BLAS, set for the process."""
    _float32_only(given, "NumPy multiplies no matrices of bfloat16")
    q, k, v = given
    hidden = np.triu(np.full((shape.n_q, shape.n_k), -np.inf, np.float32), 1) if shape.causal else None

    def call() -> np.ndarray:
        score = q @ k.mT
        score *= np.float32(1 / math.sqrt(shape.d))
        if hidden is not None:
            score += hidden
        score -= score.max(axis=-1, keepdims=True)
        np.exp(score, out=score)
        score /= score.sum(axis=-1, keepdims=True)
        return score @ v

    return Call(call)


def openvino(shape: Shape, given: Arrays, threads: int) -> Call:
    import openvino as ov
    from openvino import opset13

    kind, hint = (ov.Type.f32, "f32") if given[0].dtype == np.float32 else (ov.Type.bf16, "bf16")
    inputs = [opset13.parameter(list(each.shape), kind) for each in given]
    model = ov.Model([opset13.scaled_dot_product_attention(*inputs, causal=shape.causal)], inputs)
    settings = {"INFERENCE_PRECISION_HINT": hint, "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1}
    request = ov.Core().compile_model(model, "CPU", settings).create_infer_request()
    for at, each in enumerate(given):
        shared = (
            ov.Tensor(each, shared_memory=True)
            if hint == "f32"
            else ov.Tensor(each.view(np.int16), list(each.shape), kind)
        )
        request.set_input_tensor(at, shared)

    def answer(_: Any) -> np.ndarray:
        data = request.get_output_tensor(0).data.copy()
        return data if hint == "f32" else data.view(given[0].dtype)

    return Call(request.infer, answer)


def _session(model: Any, threads: int) -> Any:
    """A session of ONNX Runtime; its threads may spin within a run, not into the turn of the next side."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.add_session_config_entry("session.force_spinning_stop", "1")
    options.log_severity_level = 4
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _onnx(node: Any, shapes: list[tuple[int, ...]], dtype: str, opsets: list[tuple[str, int]]) -> Any:
    """A model of one node, from q, k, v to out."""
    from onnx import TensorProto, helper

    kind = {"float32": TensorProto.FLOAT, "bfloat16": TensorProto.BFLOAT16}[dtype]
    q, k, v, out = (
        helper.make_tensor_value_info(name, kind, list(each))
        for name, each in zip(("q", "k", "v", "out"), [*shapes, shapes[0]], strict=True)
    )
    graph = helper.make_graph([node], "attention", [q, k, v], [out])
    imports = [helper.make_opsetid(*each) for each in opsets]
    return helper.make_model(graph, opset_imports=imports, ir_version=11)


def ort_attention(shape: Shape, given: Arrays, threads: int) -> Call:
    """ONNX's operator Attention, opset 23, in ONNX Runtime."""
    from onnx import helper

    node = helper.make_node("Attention", ["q", "k", "v"], ["out"], is_causal=int(shape.causal))
    model = _onnx(node, [each.shape for each in given], given[0].dtype.name, [("", 23)])
    session, feed = _session(model, threads), dict(zip("qkv", given, strict=True))
    return Call(lambda: session.run(None, feed), lambda out: out[0])


def ort_multi_head(shape: Shape, given: Arrays, threads: int) -> Call:
    """ONNX Runtime's own operator MultiHeadAttention: heads side by side, (1, n, heads · d)."""
    from onnx import helper

    node = helper.make_node(
        "MultiHeadAttention", ["q", "k", "v"], ["out"], domain="com.microsoft", num_heads=shape.heads,
        unidirectional=int(shape.causal),
    )  # fmt: skip
    rows = [np.ascontiguousarray(each.swapaxes(1, 2)).reshape(1, each.shape[2], -1) for each in given]
    model = _onnx(node, [each.shape for each in rows], rows[0].dtype.name, [("", 17), ("com.microsoft", 1)])
    session, feed = _session(model, threads), dict(zip("qkv", rows, strict=True))

    def answer(out: list[np.ndarray]) -> np.ndarray:
        return out[0].reshape(1, shape.n_q, shape.heads, shape.d).swapaxes(1, 2)

    return Call(lambda: session.run(None, feed), answer)


def jax_dot_product(shape: Shape, given: Arrays, _threads: int) -> Call:
    """jax.nn.dot_product_attention under jit, rows before heads; its threads are the CPUs of the process."""
    import jax

    attend = jax.jit(lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=shape.causal))
    q, k, v = (jax.numpy.asarray(np.ascontiguousarray(each.swapaxes(1, 2))) for each in given)
    return Call(lambda: attend(q, k, v).block_until_ready(), lambda out: np.asarray(out).swapaxes(1, 2))


PEERS: dict[str, Callable[[Shape, Arrays, int], Call]] = {
    "torch SDPA": sdpa,
    "OpenVINO SDPA": openvino,
    "ONNX Runtime Attention": ort_attention,
    "ONNX Runtime MultiHeadAttention": ort_multi_head,
    "torch FlexAttention": flex,
    "JAX": jax_dot_product,
    "torch eager": torch_eager,
    "NumPy eager": numpy_eager,
}
