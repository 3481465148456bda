# The compiled kernels; see csrc/bind/core.cpp. Absent where the package was installed without them.

from typing import TypeAlias

Rows: TypeAlias = tuple[int, int, int, int, int, int]
Cells: TypeAlias = tuple[int, int, int, int, int]

def apply(
    name: str,
    sizes: tuple[int, int, int],
    q: Rows,
    k: Rows,
    v: Rows,
    factor: float,
    softcap: float,
    spans: tuple[int, int, int],
    mask: Cells,
    bias: Cells,
    by_distance: tuple[int, int],
    sinks: int,
    results: tuple[int, int, int],
) -> None: ...
def candidates() -> list[tuple[str, bool, str]]: ...
def thread_count() -> int: ...
def set_threads(n: int) -> None: ...
def leave_openmp() -> None: ...
def thread_source() -> str: ...
