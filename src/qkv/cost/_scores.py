"""The two scores side by side: a dot product, and one hidden layer over each pair.

Vaswani et al. 2017, section 3.2.1, call them similar in theory and the dot product much faster in practice.
`bench/additive_against_dot.py` measures by how much.
"""

from dataclasses import dataclass

from qkv.cost._layer import check_count


@dataclass(frozen=True)
class ScoreCost:
    """What the scores of one head cost, before the softmax.

    multiply_adds: of all products. additions: of numbers that belong to a pair, outside products. tanhs: hyperbolic
    tangents. numbers: scores and, where they are stored, the hidden layers of all pairs.
    """

    name: str
    multiply_adds: int
    additions: int
    tanhs: int
    numbers: int


def dot(n_q: int, n_k: int, d_k: int) -> ScoreCost:
    """q·k for each pair (Luong et al. 2015): one product of matrices, and nothing but the scores in memory."""
    _check(n_q=n_q, n_k=n_k, d_k=d_k)
    return ScoreCost("dot", n_q * n_k * d_k, 0, 0, n_q * n_k)


def additive(n_q: int, n_k: int, d_k: int, hidden: int | None = None, d_q: int | None = None) -> ScoreCost:
    """tanh(q W_q + k W_k) · v for each pair (Bahdanau et al. 2015), with a layer of `hidden` numbers, d_k unless given.

    The two projections are made once for each query and key, so per pair the products are as many as for the dot
    product of that width. What comes on top are `hidden` additions and tanhs for each pair, and the layer itself,
    n_q · n_k · hidden numbers where it is stored.
    """
    hidden, d_q = d_k if hidden is None else hidden, d_k if d_q is None else d_q
    _check(n_q=n_q, n_k=n_k, d_k=d_k, hidden=hidden, d_q=d_q)
    layers = n_q * n_k * hidden
    projections = n_q * d_q * hidden + n_k * d_k * hidden
    return ScoreCost("additive", projections + layers, layers, layers, n_q * n_k + layers)


def _check(**sizes: int) -> None:
    for name, value in sizes.items():
        check_count(name, value)
