"""The output itself, where it is wanted beside measures."""

from dataclasses import dataclass
from typing import Any

from qkv import _kernel
from qkv._arrays import own
from qkv._problem import check_same_library, check_values
from qkv._scan import Output, Want
from qkv._typing import Array
from qkv.measures._measure import Measure, Span, Tally


@dataclass(frozen=True, eq=False)
class output(Measure):
    """A @ v from the pass that the other measures need anyway: Σ_j w_ij v_j.

    v: as `A @ v` takes it, (…, n_kv_heads or n_heads, n_k, d_v) or (n_k,) -> (…, n_heads, n_q, d_v) or (…, n_heads,
    n_q), the average that the weights, shares, make of it, in its dtype and library. With entropy, lse and max_logit
    a kernel knows all after one pass over the keys; the tile walk takes a pass of its own for it. `out, lse =
    A.measure(output(v), lse())` is what `qkv.merge` takes. The sums that let parts be merged: Rabe & Staats 2021.
    """

    v: Any

    def start(self, span: Span) -> Tally:
        problem, (v, home) = span.problem, own(self.v, "v of output")
        if isinstance(self.v, list | tuple):
            v, home = problem.library.give(v), problem.library
        check_same_library(problem.library, q=problem.library, v=home)
        check_values(problem, span.chosen, v)
        return _Output(v, span)


class _Output(Tally):
    def __init__(self, v: Any, span: Span) -> None:
        self._span, self._is_column, self._out = span, v.ndim == 1, None
        shape = (1,) * span.chosen.ndim + (-1, 1)
        self._v = span.problem.library.xp.reshape(v, shape) if self._is_column else v

    def asks(self) -> tuple[Want, ...]:
        return (Output(self._v),)

    def take(self, heads: Array, *found: Any) -> None:
        (self._out,) = found

    def result(self) -> Any:
        out = _kernel.apply(self._span.problem, self._span.chosen, self._v) if self._out is None else self._out
        return out[..., 0] if self._is_column else out
