"""Trained models of transformers through `qkv.transformers`: what comes out, and the map of every layer."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

import qkv.transformers  # noqa: E402
from qkv import AttentionMap  # noqa: E402
from real import passes  # noqa: E402


@pytest.fixture(scope="module")
def inputs(real, model):
    return real.inputs(real.folder())


@pytest.fixture(scope="module")
def exact(model, inputs):
    return passes.run(model, inputs, "eager", torch.float64)


@pytest.fixture(scope="module")
def eager(model, inputs):
    return passes.run(model, inputs, "eager")


@pytest.fixture(scope="module")
def fused(model, inputs):
    return passes.run(model, inputs, "sdpa", maps=False)


@pytest.fixture(scope="module")
def ours(model, inputs):
    qkv.transformers.register()
    return passes.run(model, inputs, "qkv")


@pytest.fixture(scope="module")
def identity(model, inputs):
    return passes.by_identity(model, inputs)


@pytest.fixture(scope="module")
def text(inputs):
    """Which queries are tokens of the text, not padding: (batch, n); None where all are."""
    mask = inputs.get("attention_mask")
    return None if mask is None or mask.all() else mask.bool()


def error(got, want, text):
    """The largest difference; rows are the axis before the last, and those of padding do not count."""
    off = (torch.as_tensor(np.asarray(got)).double() - torch.as_tensor(np.asarray(want)).double()).abs()
    return (off if text is None else off.movedim(-2, 1)[text]).max().item()


# A deep model makes a difference of rounding larger, layer by layer. How much larger is seen from the implementations
# of transformers, which differ in nothing else; on one map, tests/test_any_problem.py holds qkv closer.
ROOM = 8


def test_the_output_is_that_of_transformers_but_for_rounding(ours, eager, fused, exact, text):
    rounding = max(error(each.output, exact.output, text) for each in (eager, fused))
    assert error(ours.output, exact.output, text) <= ROOM * rounding
    assert rounding < 1e-4 * exact.output.abs().max()


def test_every_layer_leaves_a_map_behind(real, ours, eager):
    assert len(ours.maps) == len(eager.maps) == real.n_maps
    assert all(isinstance(each, AttentionMap) for each in ours.maps)
    assert [tuple(each.shape) for each in ours.maps] == [tuple(each.shape) for each in eager.maps]


def test_the_maps_are_eager_weights_but_for_rounding(ours, eager, exact, text):
    rounding = max(error(theirs, want, text) for theirs, want in zip(eager.maps, exact.maps, strict=True))
    for mine, want in zip(ours.maps, exact.maps, strict=True):
        assert error(mine, want, text) <= ROOM * rounding
    assert rounding < 1e-4


def test_the_maps_are_what_fused_attention_does_to_the_identity(model, inputs, identity, text):
    model.set_attn_implementation("qkv")
    with torch.no_grad(), qkv.transformers.watch(model) as watched:
        model(**inputs)
    assert len(watched.calls) == len(identity)
    for call, theirs in zip(watched.calls, identity, strict=True):
        assert error(call.map, theirs, text) < 1e-4
