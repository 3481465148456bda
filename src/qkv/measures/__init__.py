"""Numbers from the exact weights, each a value: `A.measure(top(8), entropy(), image(512))` takes them in one walk.

A measure of rows gives (…, n_q), a measure of keys (…, n_k), never averaged over heads. Results are float32, float64
for float64 inputs. A row that may see no key gives 0 unless the measure says otherwise. Notation in the formulas:
w_ij the weight of key j for query i, s_ij its score in nats, lse_i = log Σ_j exp s_ij.

A high weight is not an explanation: what a key contributes also depends on its value.
"""

from qkv.measures._measure import Measure
from qkv.measures.concentration import Top, effective_keys, entropy, peak, top
from qkv.measures.keys import Mass, mass, received
from qkv.measures.picture import image
from qkv.measures.place import diagonal, induction, local
from qkv.measures.scores import MaxLogit, lse, max_logit

__all__ = [
    "Mass",
    "MaxLogit",
    "Measure",
    "Top",
    "diagonal",
    "effective_keys",
    "entropy",
    "image",
    "induction",
    "local",
    "lse",
    "mass",
    "max_logit",
    "peak",
    "received",
    "top",
]
