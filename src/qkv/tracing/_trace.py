"""One pass through a model of transformers, and what its attention did."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from qkv import _compare
from qkv._map import AttentionMap
from qkv.errors import ArgumentError, MissingError


@dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """What one pass left behind, an entry for each attention that ran, in that order.

    names: of the modules that attended, as in `model.named_modules()`; one that stands for several layers has the
    number of the call behind it, "attention[3]". maps: (batch, n_heads, n_q, n_k) each, lazy and detached.
    values: (batch, n_kv_heads, n_k, d_v) each. w_o: (n_heads · d_v, d_out), the matrix that reads the heads, or None
    where something else happens to them first. labels: of the tokens, if given. output: what the model returned.
    """

    names: tuple[str, ...]
    maps: tuple[AttentionMap, ...]
    values: tuple[Any, ...]
    w_o: tuple[Any, ...]
    output: Any
    labels: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.maps)

    def value_norms(self, layer: int) -> Any:
        """‖v_j W_O‖ for each head and key of a layer, (batch, n_heads, n_k); None where W_O isn't known.

        How far a key can move the output: Kobayashi et al. 2020.
        """
        if self.w_o[layer] is None:
            return None
        from qkv.tracing._listen import value_norms

        return value_norms(self.values[layer], self.w_o[layer])

    def value_weighted(self, layer: int) -> AttentionMap | None:
        """The map with weight · ‖v_j W_O‖ in each cell, as a share of its row; None where W_O isn't known."""
        norms = self.value_norms(layer)
        return None if norms is None else _compare.value_weighted(self.maps[layer], norms)

    def even(self, layer: int) -> AttentionMap:
        """The map of a layer whose heads see the same keys and prefer none of them."""
        return _compare.even(self.maps[layer])

    def __repr__(self) -> str:
        shapes = sorted({each.shape for each in self.maps})
        return f"Trace({len(self)} maps of shape {' or '.join(map(str, shapes))})"


def trace(model: Any, inputs: Any, *, labels: Sequence[str] | None = None) -> Trace:
    """Run a model of transformers once, without gradients, and keep the map of every attention.

    inputs: what the model is called with, a mapping of its arguments (a tokenizer's result) or one tensor.
    The model's attention implementation is what it was before, also after an error.

    Raises ArgumentError where no attention of the model comes here: it has its own, or none.
    """
    try:
        from qkv.tracing import _listen
    except ModuleNotFoundError as error:
        raise MissingError(f"tracing needs {error.name}: pip install torch transformers") from None
    kept, output = _listen.listen(model, inputs if isinstance(inputs, Mapping) else (inputs,))
    shapes = {each.map.shape for each in kept}
    if labels is not None and not any(len(labels) in shape[-2:] for shape in shapes):
        raise ArgumentError(
            f"labels are {len(labels)}, but the maps have shapes {sorted(shapes)}; give one for each token"
        )
    return Trace(
        names=tuple(each.name for each in kept),
        maps=tuple(each.map for each in kept),
        values=tuple(each.values for each in kept),
        w_o=tuple(each.w_o for each in kept),
        output=output,
        labels=None if labels is None else tuple(labels),
    )
