"""Measures, cells and A.T @ x of the compiled kernels are those of the tile walk, on random problems."""

from typing import Any

import numpy as np
import pytest

import qkv
import running
from cases.definition import BFLOAT16, bits, qkv_arrays
from qkv import measures

pytestmark = running.needs_kernel
LOSS = {"float64": 1e-10, "float32": 2e-5, "float16": 2e-5, "bfloat16": 2e-5}  # of measures, which are float32 there
ROUNDED = {"float16": 2e-3, "bfloat16": 2e-2}  # what is given in the dtype of q
SEEDS = range(24)


def drawn(seed: int) -> tuple[Any, Any, Any, dict[str, Any]]:
    """q, k, x and the arguments of a random problem that the kernels take."""
    rng = np.random.default_rng(seed)
    batch, kv_heads, group = (int(rng.integers(1, 3)) for _ in range(3))
    n_q, n_k, d = int(rng.integers(1, 150)), int(rng.integers(1, 200)), int(rng.integers(1, 40))
    dtype = [np.float32, np.float64, np.float16, BFLOAT16][seed % 4]
    q, k, _ = qkv_arrays(seed, n_q, n_k, heads=kv_heads * group, kv_heads=kv_heads, batch=batch, d_k=d, dtype=dtype)
    x = rng.standard_normal((batch, kv_heads * group, n_q, int(rng.integers(1, 60)))).astype(dtype)
    how: dict[str, Any] = {}
    choices = {
        "causal": lambda: True,
        "window": lambda: (int(rng.integers(0, 50)), int(rng.integers(0, 50))),
        "lengths": lambda: rng.integers(0, n_k + 1, batch),
        "mask": lambda: rng.random((n_q, n_k)) < 0.7,
        "bias": lambda: np.where(rng.random((n_q, n_k)) < 0.9, rng.standard_normal((n_q, n_k)), -np.inf),
        "softcap": lambda: 2.0,
        "sinks": lambda: rng.standard_normal(kv_heads * group),
    }
    for name, choose in choices.items():
        if rng.random() < 0.25:
            how[name] = choose()
    if rng.random() < 0.3:
        k[..., int(rng.integers(n_k)), 0] = rng.choice([np.nan, np.inf, -np.inf])
    if rng.random() < 0.3:
        x[..., int(rng.integers(n_q)), 0] = rng.choice([np.nan, np.inf, -np.inf])
    return q, k, x, how


def every_measure(seed: int, batch: int, n_k: int) -> list[measures.Measure]:
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, 5, (batch, n_k) if seed % 2 else n_k)
    return [
        measures.lse(), measures.max_logit(), measures.entropy(), measures.entropy(normalised=True),
        measures.effective_keys(), measures.effective_keys(2), measures.peak(), measures.saturation(),
        measures.top(3), measures.top(40), measures.received(), measures.received(per_visible=True),
        measures.mass([0, n_k - 1]), measures.mass(labels=rng.integers(0, 4, n_k)), measures.image(7),
        measures.image(9, 5, "max"), measures.image(600), measures.distance(), measures.distance(absolute=True),
        measures.distance(offset=int(rng.integers(-50, 300))), measures.diagonal(-1), measures.diagonal(2, offset=3),
        measures.local(3), measures.induction(ids), measures.duplicate(ids),
    ]  # fmt: skip


def assert_near(name: str, one: Any, other: Any, loss: float) -> None:
    one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
    assert one.shape == other.shape, name
    finite = np.isfinite(other)
    np.testing.assert_array_equal(one[~finite], other[~finite], err_msg=name)
    scale = max(1, np.abs(other[finite]).max(initial=0))
    np.testing.assert_allclose(one[finite], other[finite], rtol=0, atol=loss * scale, err_msg=name)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", running.COMPILED)
def test_every_measure_is_that_of_the_walk(name, seed):
    q, k, _, how = drawn(seed)
    A = qkv.attend(q, k, **how)
    wanted = every_measure(seed, q.shape[0], k.shape[-2])
    with running.kernel("walk"):
        walked = A.measure(*wanted)
    with running.kernel(name):
        found = A.measure(*wanted)
    for measure, one, other in zip(wanted, found, walked, strict=True):
        pairs = zip(one, other, strict=True) if isinstance(one, tuple) else [(one, other)]
        for part, (here, there) in enumerate(pairs):
            ties = q.dtype != np.float64 and part == 1 and isinstance(measure, measures.top | measures.max_logit)
            if not ties:  # of nearly equal weights the first is a matter of rounding
                assert_near(f"{measure} {part}", here, there, LOSS[q.dtype.name])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", running.COMPILED)
def test_cells_and_what_is_sent_back_are_those_of_the_walk(name, seed):
    q, k, x, how = drawn(seed)
    A = qkv.attend(q, k, **how)
    calls = {
        "weights": A.dense, "A.T @ x": lambda: A.T @ x, "raw": A.scores("raw").dense,
        "capped": A.scores("capped").dense, "biased": A.scores("biased").dense,
    }  # fmt: skip
    for what, call in calls.items():
        with running.kernel("walk"):
            walked = call()
        with running.kernel(name):
            found = call()
        loss = LOSS[q.dtype.name]
        loss = max(loss, ROUNDED.get(q.dtype.name, 0)) if what in ("weights", "A.T @ x") else loss
        assert_near(what, found, walked, loss)


@pytest.mark.parametrize("name", running.COMPILED)
def test_a_weight_has_the_same_bits_in_every_rectangle_and_in_every_measure(name):
    q, k, _ = qkv_arrays(3, 130, 300, heads=2, d_k=24)
    A = qkv.attend(q, k, causal=True)
    with running.kernel(name):
        whole = A.dense()
        assert bits(A[0, 1, 7]) == bits(whole[0, 1, 7])
        assert bits(A[:, :, 40:61, 33:170]) == bits(np.ascontiguousarray(whole[:, :, 40:61, 33:170]))
        assert bits(A[0, 1, [5, 90, 5], [3, 200, 0]]) == bits(whole[0, 1, [5, 90, 5], [3, 200, 0]])
        top, peak = A.measure(measures.top(4), measures.peak())
    order = np.argsort(-whole, axis=-1, kind="stable")[..., :4]
    seen = np.take_along_axis(whole, order, axis=-1) > 0
    np.testing.assert_array_equal(top.weight[seen], np.take_along_axis(whole, order, axis=-1)[seen])
    np.testing.assert_array_equal(top.key[seen], order[seen])
    np.testing.assert_array_equal(peak, whole.max(axis=-1))


@pytest.mark.parametrize("name", running.COMPILED)
def test_what_the_plan_leaves_to_the_walk_in_any_case_is_all_that_is_walked(name, monkeypatch):
    q, k, v = qkv_arrays(6, 30, 30, batch=1)
    A = qkv.attend(q, k)
    walked: list[str] = []
    every = [
        *every_measure(1, 1, 30), measures.output(v), measures.contribution(v, np.eye(v.shape[1] * v.shape[-1])),
        measures.spread(), measures.similar(A), measures.distance(grid=(5, 6)),
    ]  # fmt: skip
    with running.kernel(name):
        assert A.plan().path == f"kernel {name}"
        monkeypatch.setattr("qkv.measures._measure.walk", lambda *_: walked.append(type(each).__name__))
        monkeypatch.setattr("qkv._tiles.Running", None)  # nor is it walked for rows, cells and products
        for each in every:
            A.measure(each)
        assert walked == ["spread", "similar", "distance"]
        A @ v, A.T @ q, A[0, 0, 3], A.dense(), A.scores("biased").dense(), A.explain(0, 0, 1, 2)


@pytest.mark.parametrize("name", running.COMPILED)
def test_measures_and_what_is_sent_back_have_the_same_bits_on_any_number_of_threads(name):
    q, k, x = qkv_arrays(4, 500, 700, heads=3, d_k=16, d_v=5)
    x = np.random.default_rng(0).standard_normal((1, 3, 500, 9)).astype(np.float32)
    A = qkv.attend(q, k, causal=True)
    wanted = every_measure(1, 1, 700)
    found = []
    with running.kernel(name):
        for threads in (1, 2, 5):
            qkv.set_num_threads(threads)
            results = A.measure(*wanted)
            flat = [part for each in results for part in (each if isinstance(each, tuple) else (each,))]
            found.append([bits(np.asarray(part)) for part in (*flat, A.T @ x, A.dense())])
        qkv.set_num_threads(None)
        alone = [A.measure(each)[0] for each in wanted]
    flat = [part for each in alone for part in (each if isinstance(each, tuple) else (each,))]
    assert found[0] == found[1] == found[2]
    assert [bits(np.asarray(part)) for part in flat] == found[0][: len(flat)], "alone as with others"


@pytest.mark.parametrize("name", running.COMPILED)
def test_one_head_has_the_bits_that_it_has_among_others(name):
    q, k, _ = qkv_arrays(5, 200, 300, heads=4, kv_heads=2, d_k=16)
    A = qkv.attend(q, k)
    wanted = (measures.received(), measures.image(20), measures.distance(), measures.top(20), measures.entropy())
    with running.kernel(name):
        every, one = A.measure(*wanted), A[0, 2].measure(*wanted)
    for all_heads, this in zip(every, one, strict=True):
        pairs = zip(all_heads, this, strict=True) if isinstance(this, tuple) else [(all_heads, this)]
        for whole, part in pairs:
            if np.ndim(whole) > np.ndim(part):
                assert bits(np.ascontiguousarray(whole[0, 2])) == bits(np.asarray(part))
