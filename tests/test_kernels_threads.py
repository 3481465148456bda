"""The compiled kernels among threads and processes: the same bits on any number of them, and never in the way."""

import hashlib
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import qkv
import running
from cases.definition import DTYPES, bits, normal, qkv_arrays
from running import python

pytestmark = running.needs_kernel
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")


@pytest.fixture(autouse=True)
def _threads_go_back() -> Iterator[None]:
    yield
    qkv.set_num_threads(None)


# Bits.

SHAPES = [(1, 1, 5000), (1, 900, 900), (3, 50, 70), (7, 400, 65)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_one_thread_and_many_give_the_same_bits(dtype, shape, compiled):
    heads, n_q, n_k = shape
    q, k, v = qkv_arrays(1, n_q, n_k, heads=heads, d_k=16, dtype=dtype)
    for how in ({}, {"causal": True}, {"window": (100, 10), "sinks": np.zeros(heads), "softcap": 3.0}):
        seen = set()
        for n in (1, 2, 3, 8):
            qkv.set_num_threads(n)
            seen.add(bits(qkv.attention(q, k, v, **how)))
        assert len(seen) == 1


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_row_does_not_know_its_batch_its_heads_or_the_other_queries(dtype, compiled):
    q, k, v = qkv_arrays(2, 400, 300, batch=3, heads=4, kv_heads=2, d_k=16, dtype=dtype)
    out = qkv.attention(q, k, v, causal=True)
    for b, h in [(0, 0), (2, 3)]:
        assert bits(qkv.attention(q[b, h], k[b, h // 2], v[b, h // 2], causal=True)) == bits(out[b, h])
        for rows in (slice(391, 400), slice(37, 90), slice(380, 400)):
            mask = qkv.masks.causal(offset=-100 + rows.start)
            assert bits(qkv.attention(q[b, h, rows], k[b, h // 2], v[b, h // 2], causal=mask)) == bits(out[b, h, rows])


@pytest.mark.parametrize("garbage", [np.nan, np.inf, 6e4, 0.0])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_what_is_hidden_changes_not_one_bit(dtype, garbage, compiled):
    q, k, v = qkv_arrays(3, 70, 200, d_k=16, dtype=dtype)
    hidden = np.random.default_rng(0).random(200) < 0.4
    spoiled_k, spoiled_v = k.copy(), v.copy()
    spoiled_k[..., hidden, :] = spoiled_v[..., hidden, :] = garbage
    for how in ({"mask": ~hidden}, {"bias": np.where(hidden, -np.inf, 0.5)}, {"mask": ~hidden, "window": (50, 0)}):
        assert bits(qkv.attention(q, spoiled_k, spoiled_v, **how)) == bits(qkv.attention(q, k, v, **how))


# How many threads.


@pytest.mark.parametrize("n", [0, -1, 1.5, "2", True, [2]])
def test_a_number_of_threads_that_is_none_is_refused(n):
    with pytest.raises(qkv.ArgumentError, match="set_num_threads"):
        qkv.set_num_threads(n)


SAYS = """
import numpy as np, os, qkv
from qkv._kernel import core
said = [core.thread_count()]
for n in (np.int64(3), None):
    qkv.set_num_threads(n)
    said.append(core.thread_count())
os.environ["OMP_NUM_THREADS"] = "7"  # too late, as for every other library
print(*said, core.thread_count(), len(os.sched_getaffinity(0)))
"""


def test_the_number_of_threads_is_what_was_said_last():
    assert python(SAYS, OMP_NUM_THREADS="5").split()[:4] == ["5", "3", "5", "5"]
    usual, three, again, later, cpus = python(SAYS).split()
    assert (usual, three, again, later) == (cpus, "3", cpus, cpus)


CALLS = "import os, numpy as np, qkv; x = np.ones((4, 700, 64), np.float32); y = qkv.attention(x, x, x)"


@pytest.mark.parametrize(("environment", "more"), [({"OMP_NUM_THREADS": "1"}, 0), ({"OMP_NUM_THREADS": "3"}, 2)])
def test_omp_num_threads_is_obeyed(environment, more):
    tasks = "n = len(os.listdir('/proc/self/task'))"
    code = f"import os, numpy as np, qkv; x = np.ones((4, 700, 64), np.float32); {tasks}; qkv.attention(x, x, x)"
    code += "; print(len(os.listdir('/proc/self/task')) - n, qkv._kernel.core.thread_source())"
    assert python(code, **environment) == f"{more} own pool"


@pytest.mark.parametrize("order", ["import torch, qkv", "import qkv, torch"])
def test_where_torch_is_its_threads_are_used_whichever_was_imported_first(order):
    pytest.importorskip("torch", reason="torch is not installed")
    code = f"{order}; x = torch.ones(4, 700, 64); y = qkv.attention(x, x, x); print(bool(abs(y - 1).max() < 1e-5))"
    code += "; print(qkv._kernel.core.thread_source())"
    assert python(code, OMP_NUM_THREADS="2").split("\n") == ["True", "OpenMP of the process"]


USES_TORCH = "import torch; torch.ones(999, 999) @ torch.ones(999, 999)\n"
ASKS = "print(hashlib.sha256(qkv.attention(x, x[:, ::-1], x)).hexdigest(), qkv._kernel.core.thread_source())\n"
MAKES = "import hashlib, sys, numpy as np, qkv; x = np.random.default_rng(7).random((4, 700, 64), np.float32)\n" + ASKS
OWN, LENT = "own pool", "OpenMP of the process"
PROCESSES = [
    pytest.param(MAKES + "assert 'torch' not in sys.modules", [OWN], id="NumPy alone"),
    pytest.param(USES_TORCH + MAKES, [LENT], id="torch first"),
    pytest.param(MAKES + USES_TORCH + ASKS, [OWN, LENT], id="torch after a kernel has run"),
]


@pytest.mark.parametrize(("code", "sources"), PROCESSES)
def test_numpy_gets_the_same_bits_with_torch_in_the_process_and_without(code, sources, monkeypatch):
    if USES_TORCH in code:
        pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.delenv("QKV_KERNEL", raising=False)
    x = np.random.default_rng(7).random((4, 700, 64), np.float32)
    answer = hashlib.sha256(qkv.attention(x, x[:, ::-1], x)).hexdigest()
    assert python(code, OMP_NUM_THREADS="2").split("\n") == [f"{answer} {source}" for source in sources]


# Forks.

FORK = """
pid = os.fork()
if pid == 0:
    z = qkv.attention(x, x, x, causal=True)
    os._exit(0 if abs(z - 1).max() < 1e-5 else 1)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), bool(abs(qkv.attention(x, x, x) - 1).max() < 1e-5))
"""


@needs_fork
@pytest.mark.parametrize(
    "before", ["", "import torch; torch.ones(999, 999) @ torch.ones(999, 999)\n"], ids=["", "torch"]
)
@pytest.mark.parametrize("used", [True, False])
def test_a_forked_child_computes_as_its_parent(used, before):
    if before:
        pytest.importorskip("torch", reason="torch is not installed")
    start = CALLS if used else CALLS.partition("; y =")[0]
    quiet = "import warnings; warnings.simplefilter('ignore')\n"
    assert python(quiet + before + start + FORK, OMP_NUM_THREADS="2") == "0 True"


WORKERS = """
import multiprocessing
def work(n):
    return float(qkv.attention(x * n, x, x, causal=True).sum())
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as workers:
        print(len(set(workers.map(work, [1.0] * 8))))
"""


@needs_fork
@pytest.mark.parametrize(
    "before", ["", "import torch; torch.ones(999, 999) @ torch.ones(999, 999)\n"], ids=["", "torch"]
)
def test_workers_of_multiprocessing_compute(before):
    if before:
        pytest.importorskip("torch", reason="torch is not installed")
    quiet = "import warnings; warnings.simplefilter('ignore')\n"
    assert python(quiet + before + CALLS + WORKERS, OMP_NUM_THREADS="2") == "1"


# Many Python threads, and Ctrl-C.


def test_eight_python_threads_at_once_each_get_their_own_answer(compiled):
    qkv.set_num_threads(2)
    work = [qkv_arrays(seed, 100 + seed, 300 + seed, d_k=16) for seed in range(8)]
    wanted = [bits(qkv.attention(*arrays, causal=True)) for arrays in work]
    together = threading.Barrier(8)

    def run(n: int) -> list[bytes]:
        together.wait(30)
        return [bits(qkv.attention(*work[n], causal=True)) for _ in range(10)]

    with ThreadPoolExecutor(8) as threads:
        for n, seen in enumerate(threads.map(run, range(8))):
            assert set(seen) == {wanted[n]}


def test_other_python_threads_run_while_a_kernel_does():
    (x,) = normal(5, (4, 3000, 64))
    qkv.set_num_threads(1)
    ticks, done = [], threading.Event()

    def tick() -> None:
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    other = threading.Thread(target=tick)
    other.start()
    begins = time.perf_counter()
    qkv.attention(x, x, x)
    ends = time.perf_counter()
    done.set()
    other.join(30)
    assert sum(begins < at < ends for at in ticks) >= 5
