"""ONNX's own cases for its Attention operator, opsets 23 to 25, run through `attend` at ONNX's own tolerances.

The operator says in attributes and inputs what `attend` says in arguments; `_arguments` is that dictionary. What ONNX
gives as structure (causal, windows, numbers of valid keys, a cache) stays structure here: no dense mask is made of it.

The cases come from the `onnx` wheel as Python code, their random inputs seeded by ONNX.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.backend.test.case import node as onnx_cases
from onnx.backend.test.runner import Runner

import qkv

INPUTS = ("Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen")
STAGES = {0: "raw", 1: "capped", 2: "biased"}  # qk_matmul_output_mode; 3 is the map itself


def _collect() -> list[Any]:
    """The Attention cases, without their doubles "_expanded" that are made of simpler operators."""
    onnx_cases._TargetOpType = "Attention"
    first = len(onnx_cases._NodeTestCases)
    importlib.import_module("onnx.backend.test.case.node.attention")
    return [case for case in onnx_cases._NodeTestCases[first:] if not case.name.endswith("_expanded")]


CASES = _collect()


@dataclass
class Node:
    """One Attention node and its inputs, heads split: q, k, v are (batch, heads, n, d)."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    inputs: dict[str, np.ndarray | None]
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def past(self) -> int:
        """Number of keys in the cache that came in."""
        past_key = self.inputs["past_key"]
        return 0 if past_key is None else past_key.shape[2]

    @property
    def n_k(self) -> int:
        return self.past + self.k.shape[2]


def _node(case: Any) -> Node:
    node = case.model.graph.node[0]
    arrays = iter(case.data_sets[0][0])  # only the inputs that are there; an absent one has the name ""
    present = dict(zip(INPUTS, node.input, strict=False))
    inputs = {name: next(arrays) if present.get(name) else None for name in INPUTS}
    attributes = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
    heads = (attributes.get("q_num_heads"), *[attributes.get("kv_num_heads")] * 2)
    q, k, v = (_split(inputs[name], n_heads) for name, n_heads in zip("QKV", heads, strict=True))
    return Node(q, k, v, inputs, attributes)


def _split(x: Any, n_heads: int | None) -> np.ndarray:
    """ONNX's 3-D layout (batch, n, heads·d) -> (batch, heads, n, d); the 4-D layout is that already."""
    return x if x.ndim == 4 else qkv.formula.split(x, n_heads)


def _offset(node: Node) -> Any:
    """The key beside query 0: behind the cache, or so that the last query sees the last valid key of its sequence."""
    valid = node.inputs["nonpad_kv_seqlen"]
    return node.past if valid is None else valid - node.q.shape[2]


def _window(attributes: dict[str, Any]) -> tuple[int | None, int | None]:
    sizes = (attributes.get("left_window_size", -1), attributes.get("right_window_size", -1))
    left, right = (None if size < 0 else int(size) for size in sizes)
    return left, right


def _padded(given: np.ndarray, n_k: int) -> np.ndarray:
    """attn_mask as long as the keys: what it does not mention is hidden."""
    missing = [(0, 0)] * (given.ndim - 1) + [(0, n_k - given.shape[-1])]
    return np.pad(given, missing, constant_values=False if given.dtype == bool else -np.inf)


def _arguments(node: Node) -> dict[str, Any]:
    """The arguments of `attend` that mean what the node says."""
    given, attributes = node.inputs["attn_mask"], node.attributes
    window, offset = _window(attributes), _offset(node)
    arguments: dict[str, Any] = {"scale": attributes.get("scale"), "lengths": node.inputs["nonpad_kv_seqlen"]}
    arguments["softcap"] = attributes.get("softcap") or None  # 0 means none
    if attributes.get("is_causal"):
        arguments["causal"] = qkv.masks.causal(offset=offset)
        arguments["window"] = window
    elif window != (None, None):
        arguments["mask"] = qkv.masks.window(*window, offset=offset)
    if given is not None:
        given = _padded(given, node.n_k)
        if given.dtype != bool:
            arguments["bias"] = given
        else:
            arguments["mask"] = arguments["mask"] & given if "mask" in arguments else given
    return arguments


def _present(node: Node) -> tuple[np.ndarray, np.ndarray]:
    """Keys and values so far, those of the cache first."""
    cache = qkv.KVCache()
    if node.past:
        cache.append(node.inputs["past_key"], node.inputs["past_value"])
    return cache.append(node.k, node.v)


def _run(case: Any) -> list[np.ndarray]:
    """The outputs of the node that the case asks for: Y, present keys, present values, the scores or weights."""
    node = _node(case)
    k, v = _present(node)
    a = qkv.attend(node.q, k, **_arguments(node))
    y = a @ v
    if node.inputs["Q"].ndim == 3:
        y = qkv.formula.merge(y)
    mode = node.attributes.get("qk_matmul_output_mode", 0)
    shown = np.asarray(a) if mode == 3 else np.asarray(a.scores(STAGES[mode])).astype(node.q.dtype)
    outputs = [y, k, v, shown]
    return [outputs[position] for position, name in enumerate(case.model.graph.node[0].output) if name]


def test_onnx_has_93_cases_of_attention():
    assert len(CASES) == len({case.name for case in CASES}) == 93
    assert {case.model.graph.node[0].op_type for case in CASES} == {"Attention"}


@pytest.mark.usefixtures("every_kernel")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.removeprefix("test_attention_"))
def test_attention_is_what_onnx_says(case):
    Runner.assert_similar_outputs(case.data_sets[0][1], _run(case), case.rtol, case.atol)


@pytest.mark.parametrize(
    ("feature", "at_least"),
    [("is_causal", 30), ("softcap", 10), ("left_window_size", 8), ("qk_matmul_output_mode", 15), ("scale", 6)],
)
def test_the_cases_still_cover_what_they_are_here_for(feature, at_least):
    names = [each.name for case in CASES for each in case.model.graph.node[0].attribute]
    assert names.count(feature) >= at_least
