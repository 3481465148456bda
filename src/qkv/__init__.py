"""qkv: exact attention, with the weights still in your hands.

`A = qkv.attend(q, k)` stands for all n_q × n_k weights and stores none of them. `A @ v` is what attention returns,
`A[7]` the weights of query 7, exactly; `A.received()`, `A.top(8)`, `A.entropy()` and `A.image(512)` read the same
weights a tile at a time, in O(n) memory.
"""

from qkv import biases, errors, formula, masks, measures, scores
from qkv._kernel import Kernel, kernels, set_num_threads
from qkv._map import AttentionMap, attend, attention
from qkv._merge import merge
from qkv._progress import progress
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
    "Kernel",
    "MissingError",
    "MultiHead",
    "QKVError",
    "ShapeError",
    "attend",
    "attention",
    "biases",
    "errors",
    "formula",
    "kernels",
    "masks",
    "measures",
    "merge",
    "progress",
    "rollout",
    "scores",
    "set_num_threads",
    "trace",
]
