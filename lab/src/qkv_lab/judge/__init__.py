"""Judges a learner's functions beside a reference solution, and names the slip where it knows one.

`judge(source, files, seed)` runs `source` and tries its functions on the cases that the lesson's `tests.py` draws from
`seed`. What they do is held against what `solution.py` does on the same inputs: value, shape, kind of number,
exception, and that the inputs stay as they were. Of a function that fails, the results are looked up among those of the
lesson's mutants, wrong programs with a name: the one that does the same on every case is the slip.

It needs the standard library and NumPy only and runs in a browser as it does here. It stops nothing that runs for ever:
who calls it does, by a KeyboardInterrupt, which passes through.
"""

from .verdict import Lesson, judge, run

__all__ = ["Lesson", "judge", "run"]
