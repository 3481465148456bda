"""The kernels that can run here, the one that is chosen first, and a block of code that runs in one of them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import qkv

NAMES = [kernel.name for kernel in sorted(qkv.kernels(), key=lambda kernel: not kernel.chosen) if kernel.runs]


@contextmanager
def kernel(name: str) -> Iterator[None]:
    """A @ v is computed by the kernel of this name inside the block."""
    before = os.environ.get("QKV_KERNEL")
    os.environ["QKV_KERNEL"] = name
    try:
        yield
    finally:
        del os.environ["QKV_KERNEL"]
        if before is not None:
            os.environ["QKV_KERNEL"] = before
