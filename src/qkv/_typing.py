"""The few types that the whole package shares."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
DType: TypeAlias = np.dtype[Any]
Shape: TypeAlias = tuple[int, ...]
