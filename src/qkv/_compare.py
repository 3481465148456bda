"""What to hold a map against: a map that prefers no key, and the same map with the lengths of its values in it."""

from dataclasses import replace
from typing import Any

import numpy as np

from qkv import _arrays, biases
from qkv._map import AttentionMap, attend
from qkv._tile import Tile
from qkv._typing import Array
from qkv.biases import Bias
from qkv.errors import ShapeError


def even(weights: AttentionMap) -> AttentionMap:
    """A map of the same shape that sees the same keys and prefers none of them, in NumPy: 1 / visible keys a cell."""
    problem = _whole(weights)
    nothing = [np.zeros((*array.shape[:-1], 1)) for array in (problem.q, problem.k)]
    bias = None if problem.bias is None else _Hides(problem.bias)
    return attend(*nothing, mask=problem.mask, bias=bias)


def value_weighted(weights: AttentionMap, norms: Any) -> AttentionMap:
    """weight · ‖v_j W_O‖ as a share of its row, from norms (…, n_heads, n_k); a sink, which has no value, gets nothing.

    A factor on a weight is a term of its score: the same map with the bias log ‖v_j W_O‖.
    """
    problem = _whole(weights)
    with np.errstate(divide="ignore"):  # a value of length 0 moves nothing: −inf hides its key
        term = biases.dense(np.log(_arrays.floating(norms, "norms"))[..., None, :], "norms")
    term.check(problem.shape)
    bias = term if problem.bias is None else problem.bias + term
    return type(weights)(replace(problem, bias=bias, sinks=None))


def in_numpy(weights: AttentionMap) -> AttentionMap:
    """The same map of NumPy arrays, whatever library it came in."""
    problem = _whole(weights)
    q, k = (_arrays.view(array, name) for name, array in (("q", problem.q), ("k", problem.k)))
    return AttentionMap(replace(problem, q=q, k=k, library=_arrays.NUMPY))


def _whole(weights: AttentionMap) -> Any:
    """What a map computes; a part of a map has other heads than its problem."""
    problem = weights._problem  # noqa: SLF001
    if weights.shape != problem.shape:
        raise ShapeError(f"the map has shape {weights.shape}, a part of {problem.shape}; expected the whole map")
    return problem


class _Hides(Bias):
    """A bias of which only −inf is left."""

    def __init__(self, bias: Bias) -> None:
        self._bias = bias

    def of(self, tile: Tile) -> Array:
        return np.where(np.isneginf(self._bias.of(tile)), -np.inf, 0.0)

    def check(self, shape: Any) -> None:
        self._bias.check(shape)
