"""The attention maps of any model in transformers, while it runs, as objects that are never stored.

    qkv.transformers.register()
    model.set_attn_implementation("qkv")
    with torch.no_grad():
        maps = model(**inputs, output_attentions=True).attentions  # a map for each layer
    with watch(model) as seen, torch.no_grad():                    # which modules ran attention, and which of them here
        model(**inputs)

What reaches a map is what the model itself computes with: q and k after rotation and normalisation, its scale, softcap,
sinks, biases and mask. A setting that this package does not know is refused by name, never guessed.
"""

from qkv.errors import MissingError

try:
    import transformers  # noqa: F401 (so that its absence is told once, and here)
except ImportError:
    raise MissingError("qkv.transformers needs transformers: pip install transformers") from None

from qkv.transformers._interface import NAME, register
from qkv.transformers._watch import Call, Seen, watch

__all__ = ["NAME", "Call", "Seen", "register", "watch"]
