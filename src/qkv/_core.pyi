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
def candidates() -> list[tuple[str, bool, str]]: ...
def thread_count() -> int: ...
def set_threads(n: int) -> None: ...
def leave_openmp() -> None: ...
def scratch_held() -> int: ...
def thread_source() -> str: ...
