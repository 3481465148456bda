"""AttentionMap: the attention matrix of any size as an object that is never stored."""

from typing import Any

import numpy as np

from qkv import _arrays, _cells, _index, _kernel, measures
from qkv._alignment import agree
from qkv._cells import Stage
from qkv._explain import Explanation, explain
from qkv._matrix import Matrix, Scores
from qkv._plan import Plan, path, plan
from qkv._problem import Problem, check_lead, check_same_dtype, check_same_library, check_values
from qkv._tile import every_head
from qkv._typing import Array, Shape
from qkv.errors import ArgumentError, DTypeError, ShapeError
from qkv.measures._measure import Measure, Span, run


class AttentionMap(Matrix):
    """The attention matrix softmax(scale · q kᵀ), of any size, never stored.

    It looks like an array of shape (…, n_heads, n_q, n_k): rows are queries, columns keys, and each row sums to 1 (to
    less with a sink, to 0 where a query may see no key). `A @ v` averages values, `A[7]` is a row, `A.entropy()`,
    `A.top(8)`, `A.received()` and `A.image(512)` walk the exact weights; all in O(n) memory.

    A map holds references to q and k: changing them afterwards changes the map. Made by `qkv.attend`.
    """

    def __init__(self, problem: Problem, lead: Array | None = None, stage: Stage = "weight") -> None:
        super().__init__(problem, every_head(problem.lead) if lead is None else lead, stage)

    def __matmul__(self, v: Any) -> Any:
        """The average of the values: v (…, n_kv_heads or n_heads, n_k, d_v) -> (…, n_heads, n_q, d_v).

        v of shape (n_k,) gives (…, n_heads, n_q). A map picked from a larger one takes values for its own axes: of
        grouped heads, A[:2] @ v is not (A @ v)[:2], for head 1 reads the values of its own group there.
        """
        values = self._operand(v, "v")
        check_values(self._problem, self._lead, values)
        out = _kernel.apply(self._problem, self._lead, _as_matrix(self._problem, values, self.ndim))
        return out[..., 0] if values.ndim == 1 else out

    def __rmatmul__(self, x: Any) -> Any:
        """x @ A: x (…, n_heads, r, n_q) -> (…, n_heads, r, n_k), or (n_q,) -> (…, n_heads, n_k)."""
        rows = self._operand(x, "x")
        if rows.ndim == 1:
            return self._transposed(rows)
        return self._transposed(rows.mT).mT

    @property
    def T(self) -> "Transposed":  # noqa: N802 (NumPy's name)
        """The map with keys as rows: `A.T @ x` sends something from the queries back to the keys."""
        return Transposed(self)

    def scores(self, stage: str = "raw") -> Scores:
        """The scores before the softmax, in nats, indexed like the map and not stored.

        stage: "raw" is scale · q·k / temperature, "capped" after the softcap (both for hidden cells too), "biased" what
        the softmax sees: the bias added, −inf where hidden.
        """
        if stage not in ("raw", "capped", "biased"):
            raise ArgumentError(f'stage is {stage!r}; expected "raw", "capped" or "biased"')
        return Scores(self._problem, self._lead, stage)  # type: ignore[arg-type]

    def explain(self, *index: int) -> Explanation:
        """One cell taken apart, stage by stage: `A.explain(i, j)`, the leading indices first where there are any."""
        if len(index) != self.ndim or not all(isinstance(at, int | np.integer) for at in index):
            raise ArgumentError(f"explain takes {self.ndim} integers, one an axis of {self.shape}, but got {index}")
        for at, size in zip(index, self.shape, strict=True):
            if not -size <= at < size:
                raise ArgumentError(f"explain got {index}; expected a cell of the shape {self.shape}")
        i, j = (int(at) % size for at, size in zip(index[-2:], self.shape[-2:], strict=True))
        return explain(self._problem, int(self._lead[index[:-2]]), i, j)

    def plan(self) -> Plan:
        """Which path computes this map and why, and what is the walk's in any case: see `Plan`.

        It counts tiles by asking the masks, and never reads q or k.
        """
        return plan(self._problem, self._lead)

    def measure(self, *wanted: Measure) -> tuple[Any, ...]:
        """The results of these measures, in order: `A.measure(top(8), image(512))`.

        They share their passes over the keys: a kernel needs one for output, lse, max_logit and entropy, and a second
        one for any number of others. The result of a measure does not depend on those beside it.
        """
        for each in wanted:
            if not isinstance(each, Measure):
                raise DTypeError(f"measure got {each!r}; expected values of qkv.measures, e.g. measures.entropy()")
        if not wanted:
            return ()
        problem, offsets = self._problem, self._problem.offsets
        span = Span(
            problem,
            self._lead,
            self._lead.shape,
            self._lead.size,
            problem.shape,
            problem.work,
            offsets[0] if offsets else None,
            agree(offsets),
        )
        tallies = [each.start(span) for each in wanted]
        run(problem, self._lead, tallies)
        return tuple(problem.library.give(tally.result()) for tally in tallies)

    def lse(self) -> Any:
        """log Σ_j exp(score), nats: (…, n_q). See `measures.lse`."""
        return self.measure(measures.lse())[0]

    def max_logit(self) -> measures.MaxLogit:
        """The largest scaled product of each row and its key: MaxLogit(value, key). See `measures.max_logit`."""
        result: measures.MaxLogit = self.measure(measures.max_logit())[0]
        return result

    def entropy(self, unit: str = "nats", normalised: bool = False) -> Any:
        """The entropy of each row: (…, n_q). See `measures.entropy`."""
        return self.measure(measures.entropy(unit, normalised))[0]

    def top(self, k: int) -> measures.Top:
        """The k largest weights of each row: Top(weight, key, rest). See `measures.top`."""
        result: measures.Top = self.measure(measures.top(k))[0]
        return result

    def received(self, per_visible: bool = False) -> Any:
        """The weight that each key receives: (…, n_k). See `measures.received`."""
        return self.measure(measures.received(per_visible))[0]

    def mass(self, keys: Any = None, labels: Any = None) -> Any:
        """The weight on some keys: (…, n_q), or Mass(label, share). See `measures.mass`."""
        return self.measure(measures.mass(keys, labels))[0]

    def image(self, height: int, width: int | None = None, pool: str = "mean") -> Any:
        """The map as a picture: (…, at most height, at most width). See `measures.image`."""
        return self.measure(measures.image(height, width, pool))[0]

    def __repr__(self) -> str:
        problem = self._problem
        mask = "" if problem.mask is None else f", mask={problem.mask!r}"
        bias = "" if problem.bias is None else f", bias={problem.bias!r}"
        dense = self.size * problem.bytes_per_weight
        what = f"shape={self.shape}, {_arrays.dtype_name(problem.q)}{mask}{bias}"
        return f"AttentionMap({what}, dense={_bytes(dense)}, path={path(problem)})"

    def _repr_html_(self) -> str:
        from qkv import _notebook  # drawing is loaded when something is drawn

        return _notebook.page(self)

    def _operand(self, value: Any, name: str) -> Any:
        array, home = _arrays.own(value, name)
        if isinstance(value, list | tuple):
            array, home = self._problem.library.give(array), self._problem.library
        if home is not self._problem.library:
            check_same_library(self._problem.library, q=self._problem.library, **{name: home})
        return array

    def _transposed(self, x: Any) -> Any:
        """A.T @ x: (…, n_heads, n_q, c) -> (…, n_heads, n_k, c), or (n_q,) -> (…, n_heads, n_k)."""
        check_same_dtype(q=self._problem.q, x=x)
        n_q, shape = self.shape[-2], tuple(x.shape)
        if shape != (n_q,) and (x.ndim != self.ndim or shape[-2] != n_q):
            raise ShapeError(f"x has shape {shape}; expected (…, n_heads, n_q, c) or (n_q,), with n_q = {n_q}")
        matrix = _as_matrix(self._problem, x, self.ndim)
        check_lead(self._problem, self._lead, matrix, "x")
        out = _cells.apply_transposed(self._problem, self._lead, matrix)
        return out[..., 0] if x.ndim == 1 else out


class Transposed:
    """A map seen from the keys: shape (…, n_heads, n_k, n_q). `A.T @ x`, `A.T[j]`; `A.T.T` is the map."""

    __array_ufunc__ = None

    def __init__(self, attention_map: AttentionMap) -> None:
        self._map = attention_map

    @property
    def T(self) -> AttentionMap:  # noqa: N802 (NumPy's name)
        return self._map

    @property
    def shape(self) -> Shape:
        *lead, n_q, n_k = self._map.shape
        return (*lead, n_k, n_q)

    @property
    def ndim(self) -> int:
        return self._map.ndim

    @property
    def dtype(self) -> Any:
        return self._map.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __matmul__(self, x: Any) -> Any:
        """x: (…, n_heads, n_q, c) -> (…, n_heads, n_k, c), never folded over a group; (n_q,) -> (…, n_heads, n_k)."""
        return self._map._transposed(self._map._operand(x, "x"))

    def __getitem__(self, index: Any) -> Any:
        """Integers and slices, as NumPy: `A.T[..., j, :]` is what key j receives from each query."""
        entries = _index.expand(index, self.ndim)
        if not all(isinstance(entry, int | slice) for entry in entries):
            raise IndexError("the transposed map takes integers and slices; index the map itself with arrays")
        swapped = (*entries[:-2], entries[-1], entries[-2])
        cells = self._map[swapped]
        if isinstance(cells, AttentionMap):
            return cells.T
        return cells.mT if all(isinstance(entry, slice) for entry in entries[-2:]) else cells

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return self._map.__array__(dtype, copy).swapaxes(-1, -2)

    def dense(self) -> Any:
        """Every cell: O(n_q · n_k) memory."""
        return self._map.dense().mT

    def __repr__(self) -> str:
        return f"Transposed({self._map!r})"


def attend(
    q: Any, k: Any, *, causal: Any = None, window: Any = None, lengths: Any = None, mask: Any = None, bias: Any = None,
    score: Any = None, scale: float | None = None, temperature: float | None = None, softcap: float | None = None,
    sinks: Any = None, empty: str = "zero",
) -> AttentionMap:  # fmt: skip
    """The attention map of q over k, as an object: nothing is computed yet.

    q: (…, n_heads, n_q, d_k), k: (…, n_kv_heads, n_k, d_k), or both 2-D for one head. One float dtype (float16,
    bfloat16, float32, float64); integers and lists become float64. Query head h reads key head
    h // (n_heads / n_kv_heads).

    The score is scale · q·k, ÷ temperature, softcap, + bias, mask; then the softmax over the keys.

    causal: True, or masks.causal(offset=…): a query sees the keys up to its position; the last query sees the last key.
    window: (left, right) counts of keys beside the query's own position, None = open.
    lengths: integers over the axes before the heads: key j is there when j < length.
    mask: a value of qkv.masks or a bool array that broadcasts to the map, True = may attend.
    bias: a value of qkv.biases or a float array that broadcasts to the map, nats; −inf hides, nothing finite does.
    score: a value of qkv.scores; None is the dot product. scale: None is 1/√d_k for the dot product, else 1.
    temperature: > 0. softcap c: > 0, c·tanh(score/c). sinks: (n_heads,) nats, extra scores without a value.
    empty: "zero" gives a query that may see no key a row of zeros; "raise" raises EmptyRowError.

    Raises ShapeError, DTypeError or ArgumentError. Vaswani et al. 2017, eq. 1.

    >>> import numpy as np, qkv
    >>> A = qkv.attend(np.array([[1.0, 0.0]]), np.eye(2))
    >>> A[0].round(6)
    array([0.669762, 0.330238])
    """
    problem = Problem.of(
        q, k, causal=causal, window=window, lengths=lengths, mask=mask, bias=bias, score=score, scale=scale,
        temperature=temperature, softcap=softcap, sinks=sinks, empty=empty,
    )  # fmt: skip
    return AttentionMap(problem)


def attention(q: Any, k: Any, v: Any, **how: Any) -> Any:
    """softmax(scale · q kᵀ) v, the same as `attend(q, k, **how) @ v`: -> (…, n_heads, n_q, d_v)."""
    return attend(q, k, **how) @ v


def _as_matrix(problem: Problem, array: Any, ndim: int) -> Any:
    """(n,) as one column for every head; anything else as it is."""
    return problem.library.xp.reshape(array, (1,) * (ndim - 2) + (-1, 1)) if array.ndim == 1 else array


def _bytes(count: int) -> str:
    """A number of bytes as a person says it."""
    size, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{size:.0f} B" if units[0] == "B" else f"{size:.1f} {units[0]}"
