"""One attention layer: its parameters, and what one call of it costs.

Sources: Vaswani et al. 2017, section 3.2; grouped heads: Ainslie et al. 2023; the cache: Shazeer 2019.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from qkv.errors import ArgumentError

Window: TypeAlias = tuple[int | None, int | None]

DTYPES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2, "float8": 1, "int8": 1}  # bytes of a number


@dataclass(frozen=True)
class Layer:
    """The sizes of an attention layer, which decide its cost; `layer` makes one.

    d_model: width of x and of the output. n_heads, n_kv_heads: query heads, and the key and value heads they share.
    d_k, d_v: width of one head's keys and values. d_memory: width of the vectors that keys and values are made from.
    biases: the letters of the projections, among q, k, v and o, that add one.
    """

    d_model: int
    n_heads: int
    n_kv_heads: int
    d_k: int
    d_v: int
    d_memory: int
    biases: str

    def __post_init__(self) -> None:
        for name in ("d_model", "n_heads", "n_kv_heads", "d_k", "d_v", "d_memory"):
            check_count(name, getattr(self, name))
        if self.n_heads % self.n_kv_heads:
            raise ArgumentError(
                f"n_kv_heads must divide n_heads, got n_heads = {self.n_heads} and n_kv_heads = {self.n_kv_heads}; "
                f"each key head serves the same number of query heads"
            )
        if not isinstance(self.biases, str) or sorted(self.biases) != sorted(set(self.biases) & set("qkvo")):
            raise ArgumentError(f'biases must be letters of "qkvo", "" for none, got {self.biases!r}')

    @property
    def weights(self) -> dict[str, int]:
        """Numbers in each matrix: w_q, w_k, w_v, w_o."""
        return {
            "w_q": self.d_model * self.n_heads * self.d_k,
            "w_k": self.d_memory * self.n_kv_heads * self.d_k,
            "w_v": self.d_memory * self.n_kv_heads * self.d_v,
            "w_o": self.n_heads * self.d_v * self.d_model,
        }

    @property
    def parameters(self) -> int:
        """Numbers in the four matrices and their biases: 4·d_model² for plain heads without biases, whatever n_heads.

        Norms of q and k, sinks and tables of positions, which some models have, are not among them.
        """
        widths = {
            "q": self.n_heads * self.d_k,
            "k": self.n_kv_heads * self.d_k,
            "v": self.n_kv_heads * self.d_v,
            "o": self.d_model,
        }
        return sum(self.weights.values()) + sum(widths[letter] for letter in self.biases)

    def cost(
        self, n_q: int, n_k: int | None = None, *, causal: bool = False, window: Window | None = None,
        cached: int = 0, batch: int = 1, dtype: str = "float32",
    ) -> "Cost":  # fmt: skip
        """What one call costs, on `batch` sequences of n_q queries each.

        n_k: None is self-attention, in which the n_q new keys follow the `cached` ones; a number is cross-attention
        to a memory of n_k vectors. cached: how many of the keys were projected by an earlier call.
        causal, window: what a query may see, as in `qkv.attend`; the last query sees the last key.
        """
        for name, value in (("n_q", n_q), ("batch", batch)):
            check_count(name, value)
        check_count("cached", cached, least=0)
        if n_k is None:
            if self.d_memory != self.d_model:
                raise ArgumentError(
                    f"n_k must be given, as keys come from a memory of width d_memory = {self.d_memory}, not from x"
                )
            n_k = cached + n_q
        check_count("n_k", n_k)
        if cached > n_k:
            raise ArgumentError(f"cached must be at most n_k = {n_k}, got {cached}")
        if dtype not in DTYPES:
            raise ArgumentError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
        return _count(self, n_q, n_k, n_k - cached, _band(causal, window), batch, DTYPES[dtype])


@dataclass(frozen=True)
class Activations:
    """Numbers in memory during a call, for the whole batch.

    q, k, v: heads of queries, keys and values. weights: n_heads · n_q · n_k, where they are stored; fused attention
    keeps only `lse`, one number a row. heads: the averages before W_O. out: the output.
    """

    q: int
    k: int
    v: int
    weights: int
    lse: int
    heads: int
    out: int

    @property
    def dense(self) -> int:
        """All of them when the weights are stored."""
        return self.fused - self.lse + self.weights

    @property
    def fused(self) -> int:
        """All of them when lse stands for the weights."""
        return self.q + self.k + self.v + self.lse + self.heads + self.out


@dataclass(frozen=True)
class Cost:
    """What one call of an attention layer costs, for the whole batch but for `pairs` and `keys`.

    pairs: (query, key) that may meet, in one head of one sequence. keys: keys that some query may see.
    projections, scores, average: multiply-adds of the four products with matrices, of Q Kᵀ and of A V, both over the
    visible pairs only. exponentials: of the softmax. kv_cache: numbers to keep so that no key the next query may see
    is projected again. itemsize: bytes of a number.
    """

    n_q: int
    n_k: int
    pairs: int
    keys: int
    projections: int
    scores: int
    average: int
    exponentials: int
    activations: Activations
    kv_cache: int
    itemsize: int

    @property
    def multiply_adds(self) -> int:
        """All multiply-adds of the call."""
        return self.projections + self.scores + self.average

    @property
    def weights_bytes(self) -> int:
        """Bytes of the weights, where they are stored."""
        return self.activations.weights * self.itemsize

    @property
    def kv_cache_bytes(self) -> int:
        """Bytes of the keys and values to keep for the next call."""
        return self.kv_cache * self.itemsize


def layer(
    d_model: int, n_heads: int, n_kv_heads: int | None = None, *, d_k: int | None = None, d_v: int | None = None,
    d_memory: int | None = None, biases: str = "",
) -> Layer:  # fmt: skip
    """An attention layer by its sizes; what is None follows from the others.

    n_kv_heads is n_heads, d_k is d_model / n_heads, d_v is d_k, and d_memory is d_model unless given.

    >>> layer(512, 8).parameters, layer(512, 1).parameters
    (1048576, 1048576)
    >>> layer(768, 12).cost(196).multiply_adds
    521428992
    """
    check_count("d_model", d_model)
    check_count("n_heads", n_heads)
    if d_k is None:
        if d_model % n_heads:
            raise ArgumentError(f"d_k must be given, as n_heads = {n_heads} does not divide d_model = {d_model}")
        d_k = d_model // n_heads
    return Layer(
        d_model=d_model,
        n_heads=n_heads,
        n_kv_heads=n_heads if n_kv_heads is None else n_kv_heads,
        d_k=d_k,
        d_v=d_k if d_v is None else d_v,
        d_memory=d_model if d_memory is None else d_memory,
        biases=biases,
    )


def visible_pairs(n_q: int, n_k: int, *, causal: bool = False, window: Window | None = None) -> int:
    """How many (query, key) may meet, exactly; causal and window as in `qkv.attend`.

    >>> visible_pairs(4, 4, causal=True), visible_pairs(2, 4, causal=True)
    (10, 7)
    """
    check_count("n_q", n_q, least=0)
    check_count("n_k", n_k, least=0)
    return _pairs(n_q, n_k, _band(causal, window))


def check_count(name: str, value: object, least: int = 1) -> None:
    """ArgumentError unless the value is a whole number of at least this."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ArgumentError(f"{name} must be a whole number of at least {least}, got {value!r}")


def _band(causal: bool, window: Window | None) -> Window:
    """How many keys before and after its own position a query sees; None is all of them."""
    if window is None:
        return None, 0 if causal else None
    if not isinstance(window, tuple) or len(window) != 2:
        raise ArgumentError(f"window must be (left, right), counts of keys beside the query's own, got {window!r}")
    for side, value in zip(("left", "right"), window, strict=True):
        if value is not None:
            check_count(f"{side} of window", value, least=0)
    return window[0], 0 if causal else window[1]


def _pairs(n_q: int, n_k: int, band: Window) -> int:
    # Query i sees the keys from i + offset − left up to i + offset + right, those of them that exist.
    left, right = band
    offset = n_k - n_q
    ends = n_q * n_k if right is None else _clipped_sum(offset + right + 1, n_q, n_k)
    return ends - (0 if left is None else _clipped_sum(offset - left, n_q, n_k))


def _clipped_sum(start: int, count: int, top: int) -> int:
    """Σ min(max(t, 0), top) over `count` whole numbers t from `start`."""

    def below(end: int) -> int:
        ramp = min(max(end, 0), top)
        return ramp * (ramp - 1) // 2 + max(end - top, 0) * top

    return below(start + count) - below(start)


def _count(sizes: Layer, n_q: int, n_k: int, projected: int, band: Window, batch: int, itemsize: int) -> Cost:
    """The cost of n_q queries over n_k keys, of which `projected` are new."""
    w, (left, right) = sizes.weights, band
    pairs, offset = _pairs(n_q, n_k, band), n_k - n_q
    first = 0 if left is None else max(offset - left, 0)
    last = n_k if right is None else min(max(n_k + right, 0), n_k)
    keys = max(last - first, 0)
    kept = n_k if left is None else min(left, n_k)
    met, rows = batch * sizes.n_heads * pairs, batch * sizes.n_heads * n_q
    key, value = batch * sizes.n_kv_heads * sizes.d_k, batch * sizes.n_kv_heads * sizes.d_v
    return Cost(
        n_q=n_q,
        n_k=n_k,
        pairs=pairs,
        keys=keys,
        projections=batch * (n_q * (w["w_q"] + w["w_o"]) + projected * (w["w_k"] + w["w_v"])),
        scores=met * sizes.d_k,
        average=met * sizes.d_v,
        exponentials=met,
        activations=Activations(
            q=rows * sizes.d_k,
            k=key * keys,
            v=value * keys,
            weights=rows * keys,
            lse=rows,
            heads=rows * sizes.d_v,
            out=batch * n_q * sizes.d_model,
        ),
        kv_cache=(key + value) * kept,
        itemsize=itemsize,
    )
