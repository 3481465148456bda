# The compiled kernels; see csrc/bind/core.cpp. Absent where the package was installed without them.

from collections.abc import Sequence
from typing import TypeAlias

Sizes: TypeAlias = Sequence[int]
Rows: TypeAlias = tuple[int, Sizes, Sizes, int, int, int, int]
Cells: TypeAlias = tuple[int, Sizes, Sizes, int, int, int]

class Problem:
    def __init__(
        self,
        lead: Sizes,
        heads: Sizes,
        n_q: int,
        n_k: int,
        q: Rows,
        k: Rows,
        factor: float,
        softcap: float,
        spans: tuple[int, int, Sizes, Sizes] | None,
        mask: Cells | None,
        bias: Cells | None,
        by_distance: tuple[int, Sizes, Sizes] | None,
        sinks: int,
        rows: tuple[int, int],
    ) -> None: ...

def apply(
    name: str,
    problem: Problem,
    v: Rows | None,
    v_lead: Sizes,
    v_heads: Sizes,
    out: int,
    rows: tuple[int, ...],
) -> None: ...
def candidates() -> list[tuple[str, bool, str]]: ...
def thread_count() -> int: ...
def set_threads(n: int) -> None: ...
def leave_openmp() -> None: ...
def thread_source() -> str: ...
