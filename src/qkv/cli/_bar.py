"""A progress bar on stderr, where that is a terminal and the work takes a while; it is gone when the work is done."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

import qkv

PATIENCE = 0.5  # seconds before it is shown


class Bar:
    """What is done now, and how much of it; below, the rows of a map that takes long."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._step = progress.add_task("", total=None)
        self._rows = progress.add_task("rows of a map", visible=False)

    def step(self, doing: str, total: int | None = None) -> None:
        """Begin something; without a total it is not known how long it takes."""
        self._progress.update(self._step, description=doing, completed=0, total=total)

    def advance(self) -> None:
        """One more of it is done."""
        self._progress.advance(self._step)

    def rows(self, done: int, total: int) -> None:
        """A callback of `qkv.progress`."""
        self._progress.update(self._rows, completed=done, total=total, visible=done < total)


@contextmanager
def bar(doing: str) -> Iterator[Bar]:
    """A bar that begins with something of unknown length, while the block runs."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    progress = Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())
    shown = Bar(progress)
    shown.step(doing)
    later = Timer(PATIENCE, progress.start)
    later.daemon = True
    later.start()
    try:
        with qkv.progress(shown.rows):
            yield shown
    finally:
        later.cancel()
        later.join()
        progress.stop()
