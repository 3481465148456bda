"""qkv: exact attention, with the weights still in your hands.

`A = qkv.attend(q, k)` is the attention matrix of any size as an object that is never stored. `A @ v` averages
values, `A[7]` is an exact row, `A.entropy()`, `A.top(8)`, `A.received()` and `A.image(512)` walk the exact weights
in O(n) memory.
"""

from qkv import biases, errors, formula, masks, measures, scores
from qkv._map import AttentionMap, attend, attention
from qkv._merge import merge
from qkv._rollout import rollout
from qkv.errors import (
    ArgumentError,
    DenseError,
    DTypeError,
    EmptyRowError,
    MissingError,
    QKVError,
    ShapeError,
)
from qkv.heads import KVCache, MultiHead
from qkv.tracing import trace

__version__ = "0.1.0"
__all__ = [
    "ArgumentError",
    "AttentionMap",
    "DTypeError",
    "DenseError",
    "EmptyRowError",
    "KVCache",
    "MissingError",
    "MultiHead",
    "QKVError",
    "ShapeError",
    "attend",
    "attention",
    "biases",
    "errors",
    "formula",
    "masks",
    "measures",
    "merge",
    "rollout",
    "scores",
    "trace",
]
