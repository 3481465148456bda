# The compiled kernels; see csrc/bind/core.cpp. Absent where the package was installed without them.

from collections.abc import Sequence
from typing import TypeAlias

from qkv._typing import Array

Sizes: TypeAlias = Sequence[int]

class Problem:
    def __init__(
        self,
        lead: Sizes,
        heads: Sizes,
        n_q: int,
        n_k: int,
        dtype: int,
        q: Array,
        k: Array,
        factor: float,
        softcap: float,
        first: Array | None,
        last: Array | None,
        mask: Array | None,
        bias: Array | None,
        bias_dtype: int,
        by_distance: Array | None,
        sinks: Array | None,
        begin: int,
        end: int,
    ) -> None: ...

def apply(
    name: str,
    problem: Problem,
    v: Array | None,
    v_lead: Sizes,
    out: Array | None,
    rows: tuple[Array | None, ...],
) -> bool: ...
def environment(name: str) -> str | None: ...

class Scan:
    def __init__(self, stripe: int) -> None: ...
    def rows(self, mass: Array | None, squares: Array | None, slope: Array | None, largest: Array | None) -> None: ...
    def received(self, into: Array) -> None: ...
    def top(self, n: int, weight: Array, key: Array) -> None: ...
    def labels(self, label: Array, order: Array, n: int, share: Array) -> None: ...
    def picture(
        self, label: Array, order: Array, height: int, width: int, rows: int, largest: bool, value: Array
    ) -> None: ...
    def band(self, offset: Array, low: int, high: int, mass: Array) -> None: ...
    def pairs(
        self, key: Array, key_at: Array, row: Array, row_at: Array, offset: Array, reach: int, mass: Array
    ) -> None: ...
    def distances(
        self, offset: Array, absolute: bool, mean: Array, variance: Array, histogram: Array, ahead: int, back: int
    ) -> None: ...

def scan(name: str, problem: Problem, peak: Array, total: Array, wanted: Scan) -> None: ...
def window(
    name: str, problem: Problem, peak: Array | None, total: Array | None, stage: int, begin: int, end: int, out: Array
) -> None: ...
def apply_transposed(
    name: str, problem: Problem, peak: Array, total: Array, x: Array, x_lead: Sizes, out: Array
) -> None: ...
def candidates() -> list[tuple[str, bool, str]]: ...
def thread_count() -> int: ...
def set_threads(n: int) -> None: ...
def leave_openmp() -> None: ...
def scratch_held() -> int: ...
def thread_source() -> str: ...
