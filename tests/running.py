"""The kernels that can run here, the one that is chosen first, a block of code in one of them, and a fresh Python."""

import os
import subprocess
import sys
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


def python(code: str, seconds: float = 60, **environment: str) -> str:
    """What a fresh Python prints that runs this code; a hang is a failure."""
    env = {name: value for name, value in os.environ.items() if name not in ("OMP_NUM_THREADS", "QKV_KERNEL")}
    env |= {"PYTHONPATH": os.pathsep.join(sys.path), **environment}
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=seconds, env=env, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()
