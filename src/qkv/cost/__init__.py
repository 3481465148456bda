"""What attention costs: multiply-adds, parameters, numbers in memory, and the cache, counted and never guessed.

    layer(768, 12).cost(196)            one attention layer on 196 tokens; also causal, cross, or a step with a cache
    model("llama-3-8b").cost(8192)      a whole model: a name of MODELS, a config.json, a config of transformers
    kinds(n, d)   flips(d)              self-attention beside recurrent, convolutional and restricted layers
    dot(n_q, n_k, d_k)   additive(…)    the two scores, in time and in memory

One multiply-add is a multiplication and the addition after it, so FLOPs are twice as many. The softmax, norms,
activation functions and rotary positions are not among them: they grow like the numbers in memory do. Parameters
and numbers are counts; bytes are counts times the size of the dtype, and 1 MB is 10⁶ bytes.
"""

from qkv.cost._families import FeedForward, Part
from qkv.cost._kinds import Flip, Kind, flips, kinds
from qkv.cost._layer import DTYPES, Activations, Cost, Layer, layer, visible_pairs
from qkv.cost._model import MODELS, Model, ModelCost, model
from qkv.cost._scores import ScoreCost, additive, dot

__all__ = [
    "DTYPES",
    "MODELS",
    "Activations",
    "Cost",
    "FeedForward",
    "Flip",
    "Kind",
    "Layer",
    "Model",
    "ModelCost",
    "Part",
    "ScoreCost",
    "additive",
    "dot",
    "flips",
    "kinds",
    "layer",
    "model",
    "visible_pairs",
]
