"""The kernels that can run here, the one that is chosen first, a block of code in one of them, and a fresh Python."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import qkv

NAMES = [kernel.name for kernel in sorted(qkv.kernels(), key=lambda kernel: not kernel.chosen) if kernel.runs]
COMPILED = [name for name in NAMES if name != "walk"]
needs_kernel = pytest.mark.skipif(not COMPILED, reason="the compiled part of the package is not there")


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


def walked(q: Any, k: Any, v: Any, **how: Any) -> Any:
    """Attention by the tile walk."""
    with kernel("walk"):
        return qkv.attention(q, k, v, **how)


def interrupted(code: str, threads: str, after: float) -> tuple[list[str], float]:
    """Run a script that says "ready" and begins a long call; send Ctrl-C -> what it says then, and the seconds since.

    The script prints words, the last of them the time at which the call was over.
    """
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": threads}
    env.pop("QKV_KERNEL", None)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=env) as child:
        try:
            assert child.stdout is not None and child.stdout.readline() == "ready\n"
            time.sleep(after)
            assert child.poll() is None, "the call is over before it was interrupted"
            sent = time.time()
            child.send_signal(signal.SIGINT)
            *words, at = child.communicate(timeout=120)[0].split()
        finally:
            child.kill()
    return words, float(at) - sent
