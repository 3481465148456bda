"""What a qkv that was installed as a package carries and does; run by the Python that has it, with NumPy and no more.

tests/test_install.py runs it on what pip made of the sdist, `make wheel` on the wheel.
"""

import ctypes.util
import re
from importlib import metadata

import numpy as np

import qkv

CARRIED = ["LICENSE", "py.typed", "_core.pyi", "induction.safetensors"]
OURS = re.compile(
    r"qkv/[\w/]+\.(py|pyi|typed|safetensors)|qkv/_core\.[\w\-]+\.so|(qkv-[\d.]+\.dist-info|\.\./).*|.*\.pyc"
)


def carries() -> None:
    """The package, its types, model and licence; no test and no C++."""
    files = [str(path) for path in metadata.files("qkv") or ()]
    strange = [path for path in files if not OURS.fullmatch(path)]
    assert not strange, f"the package carries {strange}"
    missing = [name for name in CARRIED if name not in {path.split("/")[-1] for path in files}]
    assert not missing, f"the package lacks {missing}"
    assert "site-packages" in qkv.__file__, f"this is the source tree: {qkv.__file__}"


def computes() -> bytes:
    """Each compiled kernel is there, and the one that is chosen gives what the formula says, here in its bytes."""
    compiled = [kernel.name for kernel in qkv.kernels() if kernel.name != "walk"]
    assert "baseline" in compiled, f"there is no compiled kernel: {compiled}"
    assert next(kernel for kernel in qkv.kernels() if kernel.chosen).name in compiled
    q, k, v = np.random.default_rng(0).standard_normal((3, 4, 300, 64), dtype=np.float32)
    out = qkv.attention(q, k, v)
    wide = (each.astype(np.float64) for each in (q, k, v))
    assert np.allclose(out, qkv.formula.attention(*wide), rtol=0, atol=1e-5), "attention is not the formula"
    return out.tobytes()


def finds_openmp() -> str:
    """GNU's OpenMP is loaded into the process after a kernel has run without it, and lends its threads from then on."""
    qkv.set_num_threads(2)
    before, alone = qkv._kernel.core.thread_source(), computes()
    name = ctypes.util.find_library("gomp")
    if name is None:
        return before
    ctypes.CDLL(name)
    after = qkv._kernel.core.thread_source()
    assert (before, after) == ("own pool", "OpenMP of the process"), (before, after)
    assert computes() == alone, "other threads gave other bits"
    return f"{before}, then {after}"


if __name__ == "__main__":
    carries()
    print(*[kernel.name for kernel in qkv.kernels()], finds_openmp(), sep="; ")
