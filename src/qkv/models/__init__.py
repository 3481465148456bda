"""Trained models small enough to look into, run in NumPy.

minilm      a sentence encoder of 6 layers with 12 heads; its weights are a package of their own
induction   a causal model of 2 layers with 4 heads that copies what it has seen; its weights come with qkv

model = models.load("induction")
ids, labels = model.tokens(model.default_text)
run = model.run(ids)
run.maps[1][2]                  the attention map of layer 1, head 2
run.value_norms(1)[2]           how far each key's value can move the output of that head
"""

from qkv.errors import ArgumentError
from qkv.models._run import Layer, Model, Pass, Reader, Run

__all__ = ["NAMES", "Layer", "Model", "Pass", "Reader", "Run", "load"]

NAMES = ("minilm", "induction")


def load(name: str) -> Model:
    """The model of this name, one of `NAMES`, with its weights read."""
    if name == "minilm":
        from qkv.models import minilm

        return minilm.load()
    if name == "induction":
        from qkv.models import induction

        return induction.load()
    raise ArgumentError(f"name must be one of {', '.join(NAMES)}, got {name!r}")
