"""Problem: one attention, described and checked. Below this line nobody checks an argument again."""

import numbers
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import and_
from typing import Any

import numpy as np

from qkv import _arrays, biases, masks, scores
from qkv._broadcast import broadcasts, said
from qkv._tile import Tile, every_head
from qkv._typing import Array, DType, Shape
from qkv.errors import ArgumentError, DenseError, DTypeError, EmptyRowError, ShapeError

QUERY_TILE = 128  # rows of a tile: enough for the matrix product to run at speed
KEY_TILE = 1024  # keys of a tile: 128 × 1024 × 4 B = 512 KiB, so the handful of arrays of a tile stays in the cache

DENSE_LIMIT = 1 << 30  # bytes
NARROW, WIDE = np.dtype(np.float32), np.dtype(np.float64)
# What scale, temperature and softcap may be: far beyond use, and far from where float32 overflows or underflows.
LARGEST, SMALLEST = 1e18, 1e-18


@dataclass(frozen=True, eq=False, init=False)
class Problem:
    """q, k and everything that decides the weights.

    q: (…, n_heads, n_q, d_q) and k: (…, n_kv_heads, n_k, d_k), or both 2-D for one head; the caller's own arrays.
    shape: of the map, (…, n_heads, n_q, n_k).
    factor: scale / temperature. sinks: (n_heads,) nats, or None. bias, mask: values, or None.
    library: where q and k and all results belong.
    """

    q: Any
    k: Any
    library: _arrays.Library
    shape: Shape
    score: scores.Score
    scale: float
    temperature: float
    softcap: float | None
    bias: biases.Bias | None
    mask: masks.Mask | None
    sinks: Array | None

    def __init__(self, **parts: Any) -> None:
        """All parts, at once: one by one, as a frozen dataclass sets its fields, they take a tenth of a small call."""
        vars(self).update(parts)

    @property
    def factor(self) -> float:
        return self.scale / self.temperature

    @property
    def dtype(self) -> Any:
        """The dtype of the weights and of A @ v, as the caller's library names it."""
        return self.q.dtype.newbyteorder("=") if self.library is _arrays.NUMPY else self.q.dtype

    @property
    def work(self) -> DType:
        """The dtype that everything is computed in, and that of lse and the measures, as NumPy names it."""
        return WIDE if _arrays.dtype_name(self.q) == "float64" else NARROW

    @property
    def work_own(self) -> Any:
        """`work` as the caller's library names it."""
        return self.library.xp.float64 if self.work is WIDE else self.library.xp.float32

    @property
    def bytes_per_weight(self) -> int:
        return {"float64": 8, "float32": 4}.get(_arrays.dtype_name(self.q), 2)

    @property
    def n_heads(self) -> int:
        return self.shape[-3] if len(self.shape) > 2 else 1

    @property
    def lead(self) -> Shape:
        """The axes before n_q."""
        return self.shape[:-2]

    @property
    def offsets(self) -> list[int | Array]:
        """The alignments that the mask states, in order."""
        return [] if self.mask is None else list(self.mask.offsets(self.shape))

    @cached_property
    def row_tiles(self) -> list[slice]:
        return spans(self.shape[-2], QUERY_TILE)

    @cached_property
    def key_tiles(self) -> list[slice]:
        return spans(self.shape[-1], KEY_TILE)

    def heads(self, chosen: Array) -> Iterator[tuple[slice, Array]]:
        """The chosen heads in groups to compute together, so that small maps need few tiles.

        Yields each group's place among the chosen, and its heads as flat indices, (heads_here,).
        """
        cells = max(1, min(self.shape[-2], QUERY_TILE) * min(self.shape[-1], KEY_TILE))
        together = max(1, QUERY_TILE * KEY_TILE // cells)
        for start in range(0, len(chosen), together):
            place = slice(start, min(start + together, len(chosen)))
            yield place, chosen[place]

    def tile(self, heads: Array, rows: slice, keys: slice) -> Tile:
        """The tile of these heads (flat indices), queries and keys."""
        return Tile(self.shape, tuple(np.unravel_index(heads, self.lead)) if self.lead else (), rows, keys)

    @staticmethod
    def of(
        q: Any, k: Any, *, causal: Any = None, window: Any = None, lengths: Any = None, mask: Any = None,
        bias: Any = None, score: Any = None, scale: float | None = None, temperature: float | None = None,
        softcap: float | None = None, sinks: Any = None, empty: str = "zero",
    ) -> "Problem":  # fmt: skip
        """Check every argument of `attend` and gather them; the errors are those of `qkv.errors`."""
        q_array, k_array, home = _inputs(q, k)
        q_shape, k_shape = tuple(q_array.shape), tuple(k_array.shape)
        shape = _map_shape(q_shape, k_shape)
        if score is None:
            score = scores.Dot()
        elif not isinstance(score, scores.Score):
            raise DTypeError(f"score is {type(score).__name__}; expected a value of qkv.scores, e.g. scores.Dot()")
        score.check(q_shape, k_shape)
        rule = _mask(causal, window, lengths, mask)
        if rule is not None:
            rule.check(shape)
        problem = Problem(
            q=q_array,
            k=k_array,
            library=home,
            shape=shape,
            score=score,
            scale=score.scale(k_shape[-1]) if scale is None else _number(scale, "scale"),
            temperature=1.0 if temperature is None else _number(temperature, "temperature", above=0),
            softcap=None if softcap is None else _number(softcap, "softcap", above=0),
            bias=_bias(bias, shape),
            mask=rule,
            sinks=_sinks(sinks, shape),
        )
        _check_empty(problem, empty)
        return problem


def refuse_bytes(size: int, way_out: str) -> None:
    """Raise a DenseError for a result of more than 1 GiB, which takes an explicit `dense()`."""
    if size > DENSE_LIMIT:
        raise DenseError(f"the result would take {size:,} bytes ({size / 2**30:.1f} GiB); {way_out}")


def spans(size: int, step: int) -> list[slice]:
    """0 … size cut every `step`."""
    return [slice(start, min(start + step, size)) for start in range(0, size, step)]


def _inputs(q: Any, k: Any) -> tuple[Any, Any, _arrays.Library]:
    q_array, home = _arrays.own(q, "q")
    k_array, other = _arrays.own(k, "k")
    if other is not home:
        check_same_library(home, q=home, k=other)
    if q_array.dtype != k_array.dtype:
        check_same_dtype(q=q_array, k=k_array)
    return q_array, k_array, home


def check_same_library(home: _arrays.Library, **homes: _arrays.Library) -> None:
    """q, k and v belong to one library and lie on one device; the error names each."""
    if any(other != home for other in homes.values()):
        said = " and ".join(f"{name} a {other.name} array on {other.device}" for name, other in homes.items())
        raise DTypeError(f"{said.replace(' a ', ' is a ', 1)}; expected one library and one device")


def check_same_dtype(**arrays: Any) -> None:
    """q, k and v share one dtype; the error names each."""
    names = {name: _arrays.dtype_name(array) for name, array in arrays.items()}
    if len(set(names.values())) > 1:
        raise DTypeError(
            f"{' and '.join(names)} have dtypes {' and '.join(names.values())}; expected one float dtype for all: "
            "convert one of them"
        )


def _map_shape(q: Shape, k: Shape) -> Shape:
    if len(q) < 2 or len(q) != len(k):
        raise ShapeError(
            f"q has shape {q} and k has shape {k}; expected (…, n_heads, n_q, d_k) and (…, n_kv_heads, n_k, d_k) "
            "with the same number of axes, or two 2-D arrays for one head"
        )
    if len(q) == 2:
        return (q[0], k[0])
    n_heads, n_kv_heads = q[-3], k[-3]
    if n_heads != n_kv_heads and (n_kv_heads == 0 or n_heads % n_kv_heads):
        raise ShapeError(
            f"q has {n_heads} heads and k has {n_kv_heads} (q.shape = {q}, k.shape = {k}); expected a number of query "
            "heads that is a multiple of the key heads. Is the axis order (…, heads, positions, width)?"
        )
    try:
        batch = q[:-3] if q[:-3] == k[:-3] else np.broadcast_shapes(q[:-3], k[:-3])
    except ValueError:
        raise ShapeError(
            f"q and k have batch axes {q[:-3]} and {k[:-3]} (q.shape = {q}, k.shape = {k}); expected equal ones, or 1 "
            "for an axis that is shared"
        ) from None
    return (*batch, n_heads, q[-2], k[-2])


def _number(value: Any, name: str, above: float | None = None) -> float:
    """One real number that float32 holds, too."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise DTypeError(f"{name} is {said(value)}; expected one real number, or None")
    number = float(value)
    if not abs(number) <= LARGEST or (above is not None and number < SMALLEST):
        wanted = f"a number within ±{LARGEST:g}" if above is None else f"a number from {SMALLEST:g} to {LARGEST:g}"
        raise ArgumentError(f"{name} is {number:g}; expected {wanted}, or None to leave it out")
    return number


def _mask(causal: Any, window: Any, lengths: Any, mask: Any) -> masks.Mask | None:
    """The short forms and `mask`, joined with &."""
    if causal is None and window is None and lengths is None and mask is None:
        return None
    rules: list[masks.Mask] = []
    offset = None
    if isinstance(causal, masks.causal):
        rules.append(causal)
        offset = causal.offset
    elif isinstance(causal, bool | np.bool_) and causal:
        rules.append(masks.causal())
    elif causal is not None and not isinstance(causal, bool | np.bool_):
        raise DTypeError(f"causal is {said(causal)}; expected True, False, None or masks.causal(offset=…)")
    if window is not None:
        if not isinstance(window, tuple | list) or len(window) != 2:
            raise ArgumentError(f"window is {said(window)}; expected (left, right), counts of keys, None = open")
        rules.append(masks.window(window[0], window[1], offset=offset))
    if lengths is not None:
        rules.append(lengths if isinstance(lengths, masks.lengths) else masks.lengths(lengths))
    if mask is not None:
        rules.append(masks.as_mask(mask))
    return reduce(and_, rules) if rules else None


def _bias(bias: Any, shape: Shape) -> biases.Bias | None:
    if bias is None:
        return None
    value = biases.as_bias(bias)
    value.check(shape)
    return value


def _sinks(sinks: Any, shape: Shape) -> Array | None:
    if sinks is None:
        return None
    array = _arrays.floating(sinks, "sinks").astype(np.float64)
    if _arrays.view(sinks, "sinks").dtype == bool:
        raise DTypeError("sinks have dtype bool; expected scores in nats, one a head")
    if not (np.isneginf(array) | (np.abs(array) <= np.finfo(np.float32).max)).all():
        raise ArgumentError(f"sinks are {array.tolist()}; expected scores that float32 holds, or −inf for none")
    n_heads = shape[-3] if len(shape) > 2 else 1
    if array.shape not in ((), (n_heads,)):
        raise ShapeError(f"sinks have shape {array.shape}; expected (n_heads,) = ({n_heads},), one score a head")
    return np.broadcast_to(array, (n_heads,))


def _check_empty(problem: Problem, empty: str) -> None:
    if empty not in ("zero", "raise"):
        raise ArgumentError(f'empty is {empty!r}; expected "zero" or "raise"')
    if empty == "zero":
        return
    for _, heads in problem.heads(every_head(problem.lead).reshape(-1)):
        for rows in problem.row_tiles:
            sees = seen_rows(problem, heads, rows)
            if not sees.all():
                head, row = np.argwhere(~sees)[0]
                at = tuple(int(i) for i in np.unravel_index(heads[head], problem.lead)) if problem.lead else ()
                raise EmptyRowError(
                    f"query {rows.start + int(row)}{f' of head {at}' if at else ''} may see no key; "
                    'allow it one, or pass empty="zero" for a row of zeros'
                )


def seen_rows(problem: Problem, heads: Array, rows: slice) -> Array:
    """Whether each query may see any key at all: bool (heads_here, rows). Reads masks, never q or k."""
    sees = np.zeros((len(heads), rows.stop - rows.start), dtype=bool)
    for keys in problem.key_tiles:
        part, _ = visible(problem, problem.tile(heads, rows, keys))
        if part is True:
            sees[:] = True
        elif part is not False:
            sees |= part.any(axis=-1)
        if sees.all():
            break
    return sees


def visible(problem: Problem, tile: Tile) -> tuple[bool | Array, Array | None]:
    """What the mask and a −inf in the bias leave to see in a tile, as `Mask.of` says it, and the tile's bias.

    The bias is not asked for where the mask hides everything: None there.
    """
    sees = True if problem.mask is None else problem.mask.of(tile)
    if problem.bias is None or sees is False:
        return sees, None
    bias = problem.bias.of(tile)
    hidden = np.isneginf(bias)
    if not hidden.any():
        return sees, bias
    if hidden.all():
        return False, bias
    return (~hidden if sees is True else sees & ~hidden), bias


def check_values(problem: Problem, lead: Array, v: Any) -> None:
    """The values for the heads of `lead`: (…, n_heads, n_k, d_v), fewer heads where the map has them all, or (n_k,)."""
    if v.dtype != problem.q.dtype:
        check_same_dtype(q=problem.q, v=v)
    if lead is every_head(problem.lead) and v.shape[:-1] == problem.k.shape[:-1]:
        return  # one for each key, for a whole map: what most calls give
    n_k = problem.shape[-1]
    if tuple(v.shape) == (n_k,):
        return
    if v.ndim != lead.ndim + 2 or v.shape[-2] != n_k:
        axes = "(n_k, d_v)" if lead.ndim == 0 else "(…, n_kv_heads or n_heads, n_k, d_v)"
        raise ShapeError(
            f"v has shape {tuple(v.shape)}; expected {axes} or (n_k,), with n_k = {n_k}, for a map of shape "
            f"{lead.shape + problem.shape[-2:]}"
        )
    check_lead(problem, lead, v, "v", grouped=True)


def check_lead(problem: Problem, lead: Array, array: Any, name: str, grouped: bool = False) -> None:
    """The axes of v or x before its last two broadcast to those of the map; grouped heads only where all are there."""
    if lead.ndim == 0:
        return
    heads = array.shape[-3]
    in_order = np.arange(problem.n_heads)
    whole = lead.shape[-1] == problem.n_heads and bool((lead % max(1, problem.n_heads) == in_order).all())
    shares = grouped and whole and heads > 0 and problem.n_heads % heads == 0
    if not (broadcasts(tuple(array.shape[:-3]), lead.shape[:-1]) and (shares or heads in (1, lead.shape[-1]))):
        way_out = ", or n_kv_heads in place of n_heads" if grouped and whole else ""
        raise ShapeError(
            f"{name} has shape {tuple(array.shape)}; expected leading axes that broadcast to those of the map, "
            f"{lead.shape}{way_out}"
        )
