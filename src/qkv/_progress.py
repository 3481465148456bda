"""How far a long call is: `with qkv.progress(callback)`, and what the calls do to tell it.

A call counts the rows of the map that are done. A part of it may be a call of its own, as a kernel is of `A @ v`: what
the part tells is told on, as so many rows of the whole.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import TypeAlias

from qkv.errors import DTypeError

Callback: TypeAlias = Callable[[int, int], object]

EVERY = 0.05  # seconds between two calls of a callback, at least

# Who is told, in this thread or asyncio task: (done, total).
_listener: ContextVar[Callback | None] = ContextVar("listener", default=None)


@contextmanager
def progress(callback: Callback) -> Iterator[None]:
    """Inside the block, a long call says how far it is: callback(done, total), in rows of the map.

    total: the rows that the call computes, queries × heads. The callback is called at most 20 times a second and, when
    the call is done, with done == total; then the next call begins at 0. It runs in the thread that called, while
    others may compute. What it raises ends the call, and is raised there. Calls that it makes itself tell nobody.

    `A @ v`, `A.T @ x`, measures and dense rectangles tell; each thread and asyncio task has its own callback.

    >>> import numpy as np, qkv
    >>> A = qkv.attend(np.eye(3), np.eye(3))
    >>> with qkv.progress(lambda done, total: print(f"{done} of {total}")):
    ...     entropy = A.entropy()
    3 of 3
    """
    if not callable(callback):
        raise DTypeError(f"callback is {callback!r}; expected a function of two integers, done and total")
    said = 0.0

    def tell(done: int, total: int) -> None:
        nonlocal said
        now = time.monotonic()
        if done < total and now - said < EVERY:
            return
        said = now
        with _told_to(None):
            callback(done, total)

    with _told_to(tell):
        yield


@contextmanager
def _told_to(listener: Callback | None) -> Iterator[None]:
    before = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(before)


class Work:
    """A call under way over `total` rows of the map."""

    def __init__(self, total: int) -> None:
        self._tell = _listener.get() if total else None
        self._total, self._done = total, 0

    def advance(self, rows: int) -> None:
        """Say that so many more rows are done."""
        self._done += rows
        if self._tell is not None:
            self._tell(self._done, self._total)

    def rows(self, tiles: Iterable[slice], n_heads: int) -> Iterator[slice]:
        """The tiles of rows, each of which is done for so many heads when the next is asked for."""
        for tile in tiles:
            yield tile
            self.advance(n_heads * (tile.stop - tile.start))

    @contextmanager
    def part(self, rows: int) -> Iterator[None]:
        """A block that does so many rows, and may tell itself how far it is."""
        tell, total = self._tell, self._total

        def within(done: int, whole: int) -> None:
            if tell is not None and done < whole:  # the end of a part is told once, below
                tell(self._done + rows * done // whole, total)

        with _told_to(within):
            yield
        self.advance(rows)


def quietly() -> AbstractContextManager[None]:
    """A block whose calls tell nobody: parts of a row or two, whose caller tells the rows."""
    return nullcontext() if _listener.get() is None else _told_to(None)


def reached(share: float, rows: int) -> None:
    """What the compiled kernels call now and then: the share of their work over so many rows that is done."""
    tell = _listener.get()
    if tell is not None:
        tell(min(int(share * rows), rows - 1), rows)


def finished(rows: int) -> None:
    """Said for a compiled kernel that has done its rows."""
    tell = _listener.get()
    if tell is not None and rows:
        tell(rows, rows)
