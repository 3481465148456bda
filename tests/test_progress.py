"""How far a long call is: told to the callback of this thread, in rows of the map, and once at the end."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import qkv
from cases.definition import bits, normal, qkv_arrays
from qkv import _progress, measures


@pytest.fixture
def often(monkeypatch):
    """Every piece of work is told, however short."""
    monkeypatch.setattr(_progress, "EVERY", 0.0)


def told(work):
    """What a callback is told while this is done: [(done, total), …]."""
    seen = []
    with qkv.progress(lambda done, total: seen.append((done, total))):
        work()
    return seen


CALLS = {
    "A @ v": lambda A, v, x: A @ v,
    "A.T @ x": lambda A, v, x: A.T @ x,
    "a measure": lambda A, v, x: A.entropy(),
    "several": lambda A, v, x: A.measure(measures.received(), measures.max_logit()),
    "dense": lambda A, v, x: A.dense(),
    "scores": lambda A, v, x: A.scores("capped").dense(),
}


@pytest.mark.parametrize("name", CALLS)
def test_every_call_counts_the_rows_of_the_map_up_to_all_of_them(name, often, every_kernel):
    q, k, v = qkv_arrays(1, 700, 300, heads=3, d_k=8)
    A = qkv.attend(q, k, causal=True)
    seen = told(lambda: CALLS[name](A, v, q))
    done = [each for each, _ in seen]
    assert {total for _, total in seen} == {3 * 700}
    assert done == sorted(done)
    assert done.count(3 * 700) == 1
    if every_kernel == "walk":
        assert len(seen) > 2


def test_a_rectangle_counts_the_rows_that_were_asked_for(often):
    (q,) = normal(1, (3, 700, 8))
    assert told(lambda: qkv.attend(q, q)[:2, 100:150])[-1] == (100, 100)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0)])
def test_an_empty_map_divides_by_nothing(shape, often):
    q, k, v = qkv_arrays(1, *shape, d_k=8)
    seen = told(lambda: (qkv.attention(q, k, v), qkv.attend(q, k).entropy()))
    assert all(total > 0 for _, total in seen)


def test_a_call_that_is_done_at_once_is_told_once(every_kernel):
    q, k, v = qkv_arrays(1, 9, 9, heads=2, d_k=8)
    assert told(lambda: qkv.attention(q, k, v)) == [(18, 18)]


def test_a_kernel_tells_now_and_then_on_the_thread_that_called():
    (x,) = normal(1, (16, 3000, 64))
    qkv.set_num_threads(1)
    seen = []

    def tell(done, total):
        seen.append((time.monotonic(), done, threading.get_ident()))

    with qkv.progress(tell):
        qkv.attention(x, x, x)
    qkv.set_num_threads(None)
    at, done, threads = zip(*seen, strict=True)
    assert done[-1] == x.shape[0] * x.shape[1]
    assert len(set(done)) > 2
    assert set(threads) == {threading.get_ident()}
    assert all(np.diff(at)[:-1] > 0.04)  # the last one comes when it comes


@pytest.mark.parametrize("name", CALLS)
def test_what_a_callback_raises_ends_the_call(name, often, every_kernel):
    large = every_kernel != "walk" and name not in ("dense", "scores")  # a kernel is done with a small map at once
    (x,) = normal(1, (32, 3000, 64) if large else (1, 700, 8))
    A = qkv.attend(x, x)
    seen = []

    def stop(done, total):
        seen.append(done / total)
        raise LookupError(f"at {done}")

    with pytest.raises(LookupError, match="at "), qkv.progress(stop):
        CALLS[name](A, x, x)
    assert len(seen) == 1
    assert seen[0] < 1
    assert np.isfinite(A[0, :9] @ x[0]).all()


def test_a_callback_may_compute_and_hears_nothing_of_that(often):
    x, y = normal(1, (12, 2000, 64), (1, 100, 300))
    wanted, inner = bits(qkv.attention(x, x, x)), bits(qkv.attention(y, y, y))
    seen = []

    def tell(done, total):
        seen.append(total)
        assert bits(qkv.attention(y, y, y)) == inner
        qkv.attend(y, y).entropy()

    with qkv.progress(tell):
        assert bits(qkv.attention(x, x, x)) == wanted
    assert len(seen) > 1
    assert set(seen) == {12 * 2000}


def test_each_thread_has_its_own_callback(often):
    together = threading.Barrier(4)

    def run(n):
        q, k, v = qkv_arrays(n, 600 + n, 300, heads=1, d_k=8)
        together.wait(30)
        return told(lambda: [qkv.attention(q, k, v) for _ in range(5)] + [qkv.attend(q, k).entropy()])

    with ThreadPoolExecutor(4) as threads:
        for n, seen in enumerate(threads.map(run, range(4))):
            assert {total for _, total in seen} == {600 + n}


def test_the_inner_block_is_told_and_then_the_outer_again(often):
    q, k, v = qkv_arrays(1, 9, 9, heads=1, d_k=8)
    outer, inner = [], []
    with qkv.progress(lambda *rows: outer.append(rows)):
        with qkv.progress(lambda *rows: inner.append(rows)):
            qkv.attention(q, k, v)
        assert (outer, inner) == ([], [(9, 9)])
        qkv.attention(q, k, v)
    qkv.attention(q, k, v)
    assert (outer, inner) == ([(9, 9)], [(9, 9)])


def test_a_part_of_the_work_is_told_as_rows_of_the_whole(often):
    def work():
        whole = _progress.Work(300)
        with whole.part(200):
            part = _progress.Work(8)
            for _ in range(8):
                part.advance(1)
        with whole.part(100):
            _progress.reached(0.5, 8)
            _progress.reached(1.0, 8)
            _progress.finished(8)

    done = [done for done, _ in told(work)]
    assert done == [25, 50, 75, 100, 125, 150, 175, 200, 250, 287, 300]


def test_what_cannot_be_called_is_refused():
    with pytest.raises(qkv.DTypeError, match="callback is 7"), qkv.progress(7):
        pass
