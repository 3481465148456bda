"""Values beside each other: what is wrong with one where another is expected, in a sentence."""

from __future__ import annotations

import reprlib
from typing import Any

import numpy as np

TOLERANCE = 1e-6  # absolute, and relative to the expected number
MOST_SHOWN = 60  # numbers of an array
MOST_DEPTH = 9  # lists in lists: no answer has as many, and one that holds itself has no end


class Strange:
    """A value that is no number, array, list, tuple, dict or text: `type` is all that is known of it."""

    def __init__(self, name: str) -> None:
        self.type = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Strange) and other.type == self.type

    def __hash__(self) -> int:
        return hash(self.type)


def frozen(value: Any, depth: int = 0) -> Any:
    """A copy that nothing changes later, of plain numbers, arrays, lists, tuples and dicts."""
    if depth > MOST_DEPTH:
        return Strange("list of lists without an end")
    if isinstance(value, np.ndarray | np.generic):
        array = np.array(value, copy=True, subok=False)
        return array if array.ndim else array.item()
    if isinstance(value, list | tuple):
        items = [frozen(each, depth + 1) for each in value]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        return {key: frozen(each, depth + 1) for key, each in value.items()}
    known = value is None or isinstance(value, bool | int | float | complex | str)
    return value if known else Strange(type(value).__name__)


def _noun(value: Any) -> str:
    """What a value is: 'a list', 'an array of shape (2, 3)'."""
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    if isinstance(value, bool | np.bool_):
        return f"{value}"
    if isinstance(value, int | float | complex):
        return "one number"
    name = value.type if isinstance(value, Strange) else type(value).__name__
    return {"str": "a text", "NoneType": "None", "int": "an int"}.get(name, f"a {name}")


def _array(value: Any) -> Any:
    """The array that numbers, lists and tuples of numbers mean; None for anything else, and for uneven rows."""
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, OverflowError):
        return None
    return array if array.dtype.kind in "biufc" and not isinstance(value, str | dict | Strange) else None


def _kind(want: Any, got: Any, counted: bool) -> str:
    """What is wrong with the kind of number: True and False, real, and whole where something is counted."""
    if want.dtype.kind == "b" and got.dtype.kind != "b":
        return "It should hold True and False, and holds numbers. A comparison such as a <= b gives True and False."
    if want.dtype.kind != "b" and got.dtype.kind == "b":
        return "It should hold numbers, and holds True and False."
    if counted and want.dtype.kind in "iu" and got.dtype.kind not in "iu":
        return "It should be whole: an int, not a float. Divide whole numbers with //."
    return "It holds complex numbers." if got.dtype.kind == "c" else ""


def _shape(want: Any, got: Any) -> str:
    if want.ndim == 0:
        return f"It returned {_noun(got)}, where one number is expected."
    turned = got.ndim > 1 and got.shape == want.shape[::-1]
    last = " That is the right one turned over: rows and columns have changed places." if turned else ""
    return f"Its shape is {got.shape}, and should be {want.shape}.{last}"


def _at(index: Any) -> str:
    return "[" + ", ".join(str(int(each)) for each in index) + "]"


def _values(want: Any, got: Any, tolerance: float) -> str:
    close = np.isclose(got, want, rtol=tolerance, atol=tolerance, equal_nan=True)
    if close.all():
        return ""
    if want.ndim == 0:
        return f"It is {show(got.item())}, and should be {show(want.item())}."
    lost = np.isnan(got) & ~np.isnan(want) if got.dtype.kind == "f" else np.zeros(got.shape, bool)
    first = tuple(np.argwhere(lost if lost.any() else ~close)[0])
    if lost.any():
        whole = " That whole row is NaN." if got.ndim > 1 and lost[first[:-1]].all() else ""
        return f"It holds NaN (not a number), first at {_at(first)}, where {show(want[first])} is expected.{whole}"
    wrong = f"{(~close).sum()} of {close.size} numbers are wrong" if close.size > 1 else "The number is wrong"
    return f"{wrong}, the first at {_at(first)}: {show(got[first])}, and should be {show(want[first])}."


def _numbers(want: Any, got: Any, tolerance: float) -> str:
    wanted, array = np.asarray(want), _array(got)
    if array is None and isinstance(got, list | tuple):
        return "It returned a list that is no array of numbers: are its rows equally long?"
    if array is None:
        return f"It returned {_noun(got)}, where {_noun(want)} is expected."
    if array.shape != wanted.shape:
        return _shape(wanted, array)
    if wrong := _kind(wanted, array, counted=not isinstance(want, np.ndarray)):
        return wrong
    wrong = _values(wanted, array, tolerance)
    return f"It is {show(got)}, and should be {show(want)}." if wrong and isinstance(want, list | tuple) else wrong


def _items(want: Any, got: Any, tolerance: float) -> str:
    if not isinstance(got, list | tuple):
        return f"It returned {_noun(got)}, where {len(want)} results are expected: return a, b, …"
    if len(got) != len(want):
        return f"It returned {len(got)} results, and should return {len(want)}."
    for number, (one, other) in enumerate(zip(want, got, strict=True), 1):
        if found := difference(one, other, tolerance):
            return f"Result {number} of {len(want)}: {found}"
    return ""


def _entries(want: dict[Any, Any], got: Any, tolerance: float) -> str:
    if not isinstance(got, dict):
        return f"It returned {_noun(got)}, where a dict is expected."
    if want.keys() != got.keys():
        return f"Its keys are {reprlib.repr(list(got))}, and should be {list(want)}."
    for key, each in want.items():
        if found := difference(each, got[key], tolerance):
            return f"At {key!r}: {found}"
    return ""


def difference(want: Any, got: Any, tolerance: float = TOLERANCE) -> str:
    """What is wrong with `got`, in a sentence; "" if it is as good as `want`.

    Lists and tuples pass for arrays and for each other, whole numbers for real ones.
    """
    if want is None or got is None:
        return "" if want is got else "It returned None: is there a return?" if got is None else "It returned a value."
    if isinstance(want, dict):
        return _entries(want, got, tolerance)
    if isinstance(want, list | tuple) and not all(isinstance(each, int | float) for each in want):
        return _items(want, got, tolerance)
    if isinstance(want, str | Strange):
        return "" if want == got else f"It returned {show(got)}, where {show(want)} is expected."
    return _numbers(want, got, tolerance)


def show(value: Any) -> str:
    """A value, short: arrays with four digits and their shape."""
    if isinstance(value, np.ndarray):
        if value.size > MOST_SHOWN:
            return f"an array of shape {value.shape}"
        text = np.array2string(value, precision=4, suppress_small=True, separator=", ", max_line_width=78)
        return f"{text}  shape {value.shape}"
    if isinstance(value, np.generic):
        return show(value.item())
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list) and getattr(_array(value), "ndim", 0) > 1:
        return show(_array(value))
    if isinstance(value, tuple | list):
        parts = [show(each) for each in value[:8]] + ["…"] * (len(value) > 8)
        split = ",\n" if any(isinstance(each, np.ndarray) for each in value) else ", "
        text = split.join(parts)
        return f"[{text}]" if isinstance(value, list) else f"({text}{',' if len(value) == 1 else ''})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {show(each)}" for key, each in list(value.items())[:8]) + "}"
    return _noun(value) if isinstance(value, Strange) else reprlib.repr(value)
