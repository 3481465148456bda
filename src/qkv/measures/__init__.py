"""Numbers from the exact weights, each a value: `A.measure(top(8), entropy(), image(512))` takes them together.

What is measured together shares its passes over the keys. A kernel finds output, lse, max_logit and entropy in one, all
others in a second; spread, similar and distance(grid=…) are the tile walk's.

A measure of rows gives (…, n_q), a measure of keys (…, n_k), never averaged over heads; some say something of the whole
head beside it. Results are float32, float64 for float64 inputs. A row that may see no key gives 0 unless the measure
says otherwise. Notation in the formulas: w_ij the weight of key j for query i, s_ij its score in nats,
lse_i = log Σ_j exp s_ij.

A high weight is not an explanation: what a key contributes also depends on its value.
"""

from qkv.measures._measure import Measure
from qkv.measures.concentration import Saturation, Top, effective_keys, entropy, peak, saturation, top
from qkv.measures.distances import Distance, distance
from qkv.measures.keys import Mass, contribution, mass, received
from qkv.measures.pairs import similar
from qkv.measures.picture import image
from qkv.measures.place import diagonal, local
from qkv.measures.scores import MaxLogit, Spread, lse, max_logit, spread
from qkv.measures.tokens import duplicate, induction
from qkv.measures.values import output

__all__ = [
    "Distance",
    "Mass",
    "MaxLogit",
    "Measure",
    "Saturation",
    "Spread",
    "Top",
    "contribution",
    "diagonal",
    "distance",
    "duplicate",
    "effective_keys",
    "entropy",
    "image",
    "induction",
    "local",
    "lse",
    "mass",
    "max_logit",
    "output",
    "peak",
    "received",
    "saturation",
    "similar",
    "spread",
    "top",
]
