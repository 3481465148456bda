"""Every error that qkv raises on purpose.

    QKVError
    ├── ShapeError     (ValueError)    sizes that do not fit together
    ├── ArgumentError  (ValueError)    a value out of range, an unknown option, arguments that contradict each other
    ├── DTypeError     (TypeError)     a dtype or type that the argument does not take
    ├── EmptyRowError  (ValueError)    empty="raise" was asked for and a query may see no key
    ├── DenseError     (MemoryError)   more than 1 GiB of weights asked for without `dense()`
    └── MissingError   (RuntimeError)  an optional package or a weight file is not installed

A message takes one line: it names the argument, says what fits and what was given, and how to go on. Each class is
also the built-in error in brackets, so code that does not know qkv catches what it expects.
"""

__all__ = ["ArgumentError", "DTypeError", "DenseError", "EmptyRowError", "MissingError", "QKVError", "ShapeError"]


class QKVError(Exception):
    """Any error that qkv raises on purpose."""


class ShapeError(QKVError, ValueError):
    """Sizes that do not fit together."""


class ArgumentError(QKVError, ValueError):
    """A value out of range, an unknown option, or arguments that contradict each other."""


class DTypeError(QKVError, TypeError):
    """A dtype or type that the argument does not take."""


class EmptyRowError(QKVError, ValueError):
    """A query may see no key, and `empty="raise"` was asked for."""


class DenseError(QKVError, MemoryError):
    """A result of more than 1 GiB was asked for without `dense()`."""


class MissingError(QKVError, RuntimeError):
    """An optional package or a weight file is not installed."""
