"""Arrays that count what is done with them: the products of matrices, and the numbers that each function makes."""

from collections import Counter
from typing import Any

import numpy as np

made: Counter[str] = Counter()  # how many numbers each ufunc made, by its name
products: list[tuple[int, int]] = []  # of each product of matrices, its multiply-adds and the numbers it made


class Counted(np.ndarray[Any, Any]):
    """An array whose operations, and those of their results, are entered in `made` and `products`."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        out = getattr(ufunc, method)(*map(plain, inputs), **{key: plain(value) for key, value in options.items()})
        if method == "__call__":
            made[ufunc.__name__] += np.size(out)
            if ufunc is np.matmul:
                products.append((np.size(out) * inputs[0].shape[-1], np.size(out)))
        return wrapped(out)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        return wrapped(function(*map(plain, args), **{key: plain(value) for key, value in options.items()}))


def plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(map(plain, value))
    return value.view(np.ndarray) if isinstance(value, Counted) else value


def wrapped(value: Any) -> Any:
    return value.view(Counted) if isinstance(value, np.ndarray) else value


def counting(*shapes: tuple[int, ...]) -> list[Any]:
    """Random arrays of these shapes, and an empty log."""
    made.clear()
    products.clear()
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).view(Counted) for shape in shapes]


def multiply_adds() -> int:
    """Of all products since `counting`."""
    return sum(product for product, _ in products)
