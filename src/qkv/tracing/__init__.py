"""A model of transformers looked into: one pass, the map of every layer, and every head in numbers.

    seen = qkv.trace(model, tokenizer(text, return_tensors="pt"))
    seen.maps[3].entropy()                   the map of the fourth attention that ran
    seen.value_weighted(3)                   the same, with the lengths of its values in it
    for head in table(seen, ids): …          each head: entropy, peak, previous token, induction, …
    model = pretrained("path/to/model")      a folder of transformers, run on text

torch and transformers are imported when something is traced.
"""

from qkv.tracing._pretrained import FOLDERS, Pretrained, pretrained
from qkv.tracing._table import FEWEST, FIGURES, Figure, Head, table
from qkv.tracing._trace import Trace, trace

__all__ = ["FEWEST", "FIGURES", "FOLDERS", "Figure", "Head", "Pretrained", "Trace", "pretrained", "table", "trace"]
