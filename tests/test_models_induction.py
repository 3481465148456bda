"""The induction model: what it learned, against torch, step by step, and the script that trains it."""

import copy
import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from qkv import models
from qkv.errors import ArgumentError
from qkv.models import induction

pytest.importorskip("safetensors", reason="safetensors is not installed")

SCRIPT = Path(__file__).parents[1] / "examples" / "train_induction.py"
RNG = np.random.default_rng(30)


@pytest.fixture(scope="module")
def model():
    return models.load("induction")


def repeated(period, length):
    return np.resize(RNG.integers(0, 64, period), length)


def test_it_equals_the_torch_model_it_was_trained_as(model):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from safetensors.numpy import load_file

    spec = importlib.util.spec_from_file_location("train_induction", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    theirs = script.Copier()
    arrays = load_file(Path(induction.__file__).with_name("induction.safetensors"))
    short = dict(zip(theirs.arrays(), theirs.state_dict(), strict=True))
    theirs.load_state_dict({short[name]: torch.from_numpy(array) for name, array in arrays.items()})
    wide = copy.deepcopy(theirs).double()
    for length in (1, 2, 17, 64):
        ids = repeated(min(length, 20), length)
        with torch.no_grad():
            want, exact = (each(torch.from_numpy(ids)[None])[0].numpy() for each in (theirs, wide))
        error, allowed = (np.sqrt(np.mean((x - exact) ** 2)) for x in (model.run(ids).output, want))
        assert error <= 2 * allowed, f"length {length}: error {error:.3g}, torch's {allowed:.3g}"
        np.testing.assert_allclose(model.run(ids).output, want, rtol=0, atol=1e-4)


def test_it_equals_the_architecture_written_out(model):
    from safetensors.numpy import load_file

    w = load_file(Path(induction.__file__).with_name("induction.safetensors"))
    w = {name: array.astype("f8") for name, array in w.items()}

    def norm(x, name):
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * w[f"{name}.weight"] + w[f"{name}.bias"]

    ids = repeated(20, 50)
    x, hidden = w["e.weight"][ids], ~np.tri(50, dtype=bool)
    run = model.run(ids)
    for i in range(2):
        y = norm(x, f"b.{i}.ln")
        q, k = ((y + w["pos"][:50]) @ w[f"b.{i}.{part}.weight"].T for part in "qk")
        v, out = y @ w[f"b.{i}.v.weight"].T, np.zeros_like(x)
        for h in range(4):
            own = slice(16 * h, 16 * (h + 1))
            e = np.where(hidden, 0, np.exp(q[:, own] @ k[:, own].T / 4))
            weight = e / e.sum(-1, keepdims=True)
            np.testing.assert_allclose(np.asarray(run.maps[i][h]), weight, rtol=0, atol=1e-5)
            out += weight @ v[:, own] @ w[f"b.{i}.o.weight"].T[own]
        x = x + out
    np.testing.assert_allclose(run.output, norm(x, "ln") @ w["u.weight"].T, rtol=0, atol=2e-5)


def test_it_copies_a_random_sequence_and_two_kinds_of_heads_do_it(model):
    period, right, before, again = 28, [], [], []
    for _ in range(64):
        ids = repeated(period, 2 * period)
        run = model.run(ids)
        right.append(run.output[period:-1].argmax(-1) == ids[period + 1 :])
        first, second = (np.asarray(a) for a in run.maps)
        before.append(first.diagonal(-1, 1, 2).mean(-1))
        again.append(second.diagonal(1 - period, 1, 2)[:, 1:].mean(-1))
    assert np.mean(right) >= 0.97
    assert (np.mean(again, axis=0) >= 0.85).all()
    assert np.mean(before, axis=0).max() == pytest.approx(0.71, abs=0.02)
    assert np.mean(before, axis=0).argmax() == 1


@pytest.mark.parametrize("period", [8, 14, 20, 31])
def test_it_copies_at_every_period_it_was_trained_for(model, period):
    right = []
    for _ in range(32):
        ids = repeated(period, min(64, 3 * period))
        right.append(model.run(ids).output[period:-1].argmax(-1) == ids[period + 1 :])
    assert np.mean(right) >= 0.97


def test_the_default_text_repeats_itself_and_is_foretold(model):
    ids, labels = model.tokens(model.default_text)
    assert "".join(labels) == model.default_text
    period = next(p for p in range(1, len(ids)) if (ids[p:] == ids[:-p]).all())
    assert 12 <= period <= 16
    assert len(set(ids.tolist())) == period
    assert (model.run(ids).output[period:-1].argmax(-1) == ids[period + 1 :]).all()


@pytest.mark.parametrize("chunks", [[1] * 40, [40], [10, 1, 0, 29], [39, 1], [3, 3, 34]])
def test_running_step_by_step_equals_one_pass(model, chunks):
    ids = repeated(17, 40)
    caches, outs, start = model.caches(), [], 0
    whole = model.run(ids)
    for n in chunks:
        run = model.run(ids[start : start + n], caches=caches)
        outs.append(run.output)
        start += n
        for layer, full in enumerate(whole.maps):
            assert run.maps[layer].shape == (4, n, start)
            np.testing.assert_allclose(
                np.asarray(run.maps[layer]), np.asarray(full)[:, start - n : start, :start], rtol=0, atol=1e-5
            )
            assert run.value_norms(layer).shape == (4, start)
    np.testing.assert_allclose(np.concatenate(outs), whole.output, rtol=0, atol=2e-5)


def test_a_step_that_fails_leaves_every_cache_as_it_was(model):
    caches = model.caches()
    model.run(repeated(8, 60), caches=caches)
    with pytest.raises(ArgumentError, match="induction takes at most 64 tokens, got 65; leave out 1"):
        model.run(repeated(5, 5), caches=caches)
    caches[1].append(np.ones((4, 1, 16), "f4"), np.ones((4, 1, 16), "f4"))
    with pytest.raises(ArgumentError, match=r"caches of one pass hold equally many keys, got \[60, 61\]"):
        model.run([1], caches=caches)
    assert [len(cache) for cache in caches] == [60, 61]
    with pytest.raises(ArgumentError, match="one for each of 2 layers, got 1"):
        model.run([1], caches=caches[:1])


def test_value_norms_are_the_lengths_of_the_values_after_w_o(model):
    run = model.run(repeated(10, 30))
    for i, layer in enumerate(run.layers):
        norms = run.value_norms(i)
        assert norms.shape == (4, 30)
        for h in range(4):
            added = layer.v[h] @ layer.attention.w_o[16 * h : 16 * (h + 1)]
            np.testing.assert_allclose(norms[h], np.sqrt((added**2).sum(-1)), rtol=1e-5)


def test_text_is_written_with_an_alphabet_of_64_symbols(model):
    assert len(set(induction.ALPHABET)) == 64 == len(model.symbols)
    ids, labels = model.tokens("az AZ.09")
    assert ids.tolist() == [0, 25, 62, 26, 51, 63, 52, 61]
    assert labels == ["a", "z", "␣", "A", "Z", ".", "0", "9"]
    with pytest.raises(ArgumentError, match=r"a-z, A-Z, 0-9, space and full stop, got '\\n' '!' 'é'"):
        model.tokens("Héllo!\n")
    with pytest.raises(ArgumentError, match="induction takes at most 64 tokens, got 70; leave out 6"):
        model.tokens("abcdefg" * 10)
    assert model.run(model.tokens("")[0]).output.shape == (0, 64)


def test_the_script_trains_and_saves_what_the_model_reads(tmp_path, model):
    pytest.importorskip("torch", reason="torch is not installed")
    from safetensors.numpy import load_file

    out = tmp_path / "new.safetensors"
    done = subprocess.run(
        [sys.executable, SCRIPT, "--steps", "2", "--out", out], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "step 2: loss" in done.stdout
    assert "right in the second round" in done.stdout
    new, shipped = load_file(out), load_file(Path(induction.__file__).with_name("induction.safetensors"))
    assert {name: array.shape for name, array in new.items()} == {name: a.shape for name, a in shipped.items()}
    trained = induction.Induction.from_arrays(new)
    assert trained.run([1, 2, 3]).output.shape == (3, 64)
