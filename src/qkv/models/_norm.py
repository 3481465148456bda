"""Layer normalisation, which both models have."""

from dataclasses import dataclass

import numpy as np

from qkv._typing import Array


@dataclass(frozen=True, eq=False)
class LayerNorm:
    """Each row brought to mean 0 and variance 1, then scaled and shifted: (…, d) -> (…, d).

    Source: Ba, Kiros and Hinton 2016.
    """

    gain: Array  # (d,)
    shift: Array  # (d,)
    eps: float

    def __call__(self, x: Array) -> Array:
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = np.square(centred).mean(axis=-1, keepdims=True)
        scaled: Array = centred / np.sqrt(variance + self.eps) * self.gain + self.shift
        return scaled
