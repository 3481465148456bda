"""What limits a kernel: the threads that others allow this process, the memory that there is, and Ctrl-C."""

import importlib.util
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import qkv
import running
from cases.definition import DTYPES, check, qkv_arrays
from qkv import _kernel, measures
from running import python

pytestmark = running.needs_kernel
needs_two = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="this process may run on one CPU only")
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")

# The threads of others.

COUNT = "from qkv._kernel import core; count = lambda: print(core.thread_count(), end=' '); count()\n"
POOLS = """
import threadpoolctl
with threadpoolctl.threadpool_limits(1):
    count()
    qkv.set_num_threads(8)
    count()
count()
qkv.set_num_threads(None)
count()
"""


@needs_two
@pytest.mark.parametrize("order", ["qkv", pytest.param("torch, qkv", marks=needs_torch)])
def test_threadpoolctl_limits_the_threads_while_it_says_so(order):
    usual, within, chosen, after, again = python(f"import {order}\n{COUNT}{POOLS}").split()
    assert (within, chosen, after) == ("1", "1", "8")
    assert usual == again != "1"


@needs_two
def test_a_limit_is_one_of_the_threads_that_run():
    code = """
import os, numpy as np, qkv, threadpoolctl
tasks = lambda: len(os.listdir("/proc/self/task"))
x, before = np.ones((4, 700, 64), np.float32), tasks()
with threadpoolctl.threadpool_limits(1):
    qkv.attention(x, x, x)
    print(tasks() - before)
qkv.attention(x, x, x)
print(tasks() > before)
"""
    assert python(code).split() == ["0", "True"]


@needs_two
@needs_torch
@pytest.mark.parametrize(
    ("order", "environment"), [("torch, qkv", {}), ("qkv, torch", {"OMP_NUM_THREADS": "1"})], ids=["first", "after"]
)
def test_what_torch_was_told_is_obeyed(order, environment):
    code = "\nfor n in (1, 2, 5):\n    torch.set_num_threads(n)\n    count()\nqkv.set_num_threads(1)\ncount()"
    assert python(f"import {order}\n{COUNT}{code}", **environment).split()[1:] == ["1", "2", "5", "1"]


@needs_two
def test_the_environment_is_a_default_and_qkv_may_go_beyond_it():
    code = f"import qkv\n{COUNT}qkv.set_num_threads(2)\ncount()"
    assert python(code, OMP_NUM_THREADS="1").split() == ["1", "2"]
    assert python(code, OPENBLAS_NUM_THREADS="1").split() == ["1", "1"]


# Workers.

WORKERS = """
import multiprocessing
import numpy as np
import qkv

def work(n):
    x = np.random.default_rng(0).standard_normal((4, 300, 16))
    return float(qkv.attention(x, x, x, causal=True).sum()) * n

if __name__ == "__main__":
    wanted = work(1)
    with multiprocessing.get_context("{method}").Pool(2) as workers:
        print(set(workers.map(work, [1.0] * 4)) == {{wanted}})
"""


@pytest.mark.parametrize(
    ("method", "before"), [("spawn", ""), pytest.param("forkserver", "import torch", marks=needs_torch)]
)
def test_workers_that_start_afresh_compute_as_their_parent(method, before, tmp_path):
    script = tmp_path / "work.py"  # such workers import what they run
    script.write_text(before + WORKERS.format(method=method))
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "2"}
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, env=env, check=False)
    assert (ran.stdout.strip(), ran.returncode) == ("True", 0), ran.stderr


LOADER = """
import warnings; warnings.simplefilter("ignore")
import torch, qkv
from qkv._kernel import core

class Maps(torch.utils.data.Dataset):
    def __len__(self):
        return 6
    def __getitem__(self, n):
        x = torch.full((4, 300, 16), float(n))
        return qkv.attention(x, x, x)[0, 0, 0], core.thread_count()

torch.set_num_threads(2)
x = torch.ones(4, 300, 16)
qkv.attention(x, x, x)
found = list(torch.utils.data.DataLoader(Maps(), num_workers=2, batch_size=3))
print([round(float(each)) for values, _ in found for each in values], {int(n) for _, count in found for n in count})
"""


@needs_torch
def test_workers_of_a_dataloader_compute_on_the_one_thread_that_torch_gives_them():
    assert python(LOADER, seconds=120) == "[0, 1, 2, 3, 4, 5] {1}"


# Memory.


def scratch_of(call):
    """The bytes that a fresh thread holds after a call, and what the call returned."""
    found = []

    def run():
        out = call()
        found.extend([_kernel.core.scratch_held(), out])

    fresh = threading.Thread(target=run)
    fresh.start()
    fresh.join()
    return found


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", running.COMPILED)
def test_a_thread_takes_at_most_4_mib(dtype, name, monkeypatch):
    monkeypatch.setenv("QKV_KERNEL", name)
    qkv.set_num_threads(1)
    for width in (64, 1024, 1500, 2048):
        x = np.ones((1, 200, width), dtype)
        k = x[:, :40, ::-1]  # copied a tile at a time
        A, labels = qkv.attend(x, k), np.arange(40) % 7
        every = [measures.mass(labels=labels + at) for at in range(20)]
        every += [measures.top(3), measures.image(9), measures.distance(), measures.received()]
        calls = [lambda: A @ k, lambda: A.T @ x, lambda: A.measure(*every), A.dense]  # noqa: B023 (called at once)
        for call in calls:
            assert 0 < scratch_of(call)[0] <= 4 << 20
    qkv.set_num_threads(None)


def test_values_as_wide_as_a_picture_are_averaged():
    q, k, v = qkv_arrays(1, 3, 5, heads=1, d_k=8, d_v=100_000)
    check(q, k, v)
    held, _ = scratch_of(lambda: qkv.attention(q, k, v))
    assert held < 1200 * 100_000


WITHOUT_MEMORY = """
import numpy as np, qkv, resource, sys
threads, again = int(sys.argv[1]), sys.argv[2] == "again"
qkv.set_num_threads(1)
narrow, x = np.ones((2, 300, 8), np.float32), np.ones((2, 300, 2048), np.float32)
qkv.attention(x if again else narrow, x if again else narrow, narrow)  # scratch memory of this thread, and imports
qkv.set_num_threads(threads)
pieces = [bytearray(1 << 15) for _ in range(60)]
with open("/proc/self/statm") as file:
    held = int(file.read().split()[0]) * resource.getpagesize()
allowed, most = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (held + (1 << 18), most))
kept, size = [], 1 << 20
while size > 1 << 16:
    try:
        kept.append(bytearray(size))
    except MemoryError:
        size //= 2
del pieces[::2]  # what NumPy and Python need for a call, in pieces too small for the kernel
try:
    said = bool(abs(qkv.attention(x, x, narrow) - 1).max() < 1e-5)
except MemoryError as error:
    said = error
del kept
resource.setrlimit(resource.RLIMIT_AS, (allowed, most))
print(said)
print(bool(abs(qkv.attention(x, x, narrow) - 1).max() < 1e-5))
"""


def without_memory(threads, again):
    code = f"import sys; sys.argv = ['', '{threads}', '{again}']\n{WITHOUT_MEMORY}"
    return python(code, MALLOC_ARENA_MAX="1").split("\n")


@pytest.mark.parametrize("threads", [1, 2])
def test_without_memory_a_call_says_so_and_the_next_one_works(threads):
    pytest.importorskip("resource", reason="limits of POSIX")
    said, works = without_memory(threads, "first")
    assert "scratch memory" in said
    assert "set_num_threads" in said
    assert works == "True"


def test_without_memory_for_another_thread_the_first_does_the_work():
    pytest.importorskip("resource", reason="limits of POSIX")
    assert without_memory(4, "again") == ["True", "True"]


# Ctrl-C.

LONG = """
import numpy as np, qkv, time
q, k = np.ones(({heads}, {n_q}, 64), np.{dtype}), np.ones(({heads}, {n_k}, 64), np.{dtype})
print("ready", flush=True)
calls = 0
try:
    while calls < 1000:
        out = None
        out = qkv.attention(q, k, k)
        calls += 1
except KeyboardInterrupt:
    at, few = time.time(), q[:, :9]
    works = abs(qkv.attention(few, few, few) - 1).max() < 1e-5
    print(out is None or bool(abs(out - 1).max() < 1e-3), bool(works), at)
"""


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize(
    ("dtype", "heads", "n_q", "n_k", "before", "threads"),
    [
        ("float32", 64, 16_384, 16_384, "", "1"),
        ("float32", 64, 16_384, 16_384, "", "2"),
        ("float32", 1, 16, 4_000_000, "", "1"),
        ("float64", 1, 384, 2_000_000, "", "2"),  # one task
        ("float32", 1, 50_000, 50_000, "", "2"),
        ("float64", 1, 50_000, 50_000, "", "1"),
        pytest.param("float32", 1, 384, 4_000_000, "import torch\n", "2", marks=needs_torch),
        pytest.param("float64", 1, 50_000, 50_000, "import torch\n", "2", marks=needs_torch),
    ],
)
def test_ctrl_c_ends_a_call(dtype, heads, n_q, n_k, before, threads):
    code = before + LONG.format(dtype=dtype, heads=heads, n_q=n_q, n_k=n_k)
    words, seconds = running.interrupted(code, threads, after=0.4)
    assert words == ["True", "True"]
    assert seconds < 15, "half a second is meant, of minutes and more that were asked for"
