"""Every head in numbers, and a folder of transformers that reads text."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")

import qkv  # noqa: E402
from qkv import models  # noqa: E402
from qkv.errors import ArgumentError  # noqa: E402
from qkv.tracing import FEWEST, FIGURES, pretrained, table  # noqa: E402
from qkv.tracing._written import written  # noqa: E402

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 20}
LLAMA = transformers.LlamaConfig(**SIZES, num_key_value_heads=2, max_position_embeddings=12)
WORDS = "<s> <unk> the cat sat on mat because it was tired . a".split()
TEXT = "the cat sat on the mat"


@pytest.fixture(scope="module")
def run():
    model = models.load("induction")
    ids, _ = model.tokens(model.default_text)
    return model.run(ids), ids, model.own(ids)


@pytest.fixture(scope="module")
def rows(run):
    return {(row.layer, row.head): row for row in table(*run)}


def by_definition(weights, ids):
    """Each figure of one causal head from its dense weights, (n, n) float64: (the value of each query, who counts)."""
    n = len(ids)
    i, j = np.arange(n)[:, None], np.arange(n)
    after_copy = (np.roll(ids, 1) == ids[:, None]) & (j >= 1) & (j <= i)
    copy = (ids == ids[:, None]) & (j < i)
    every = np.ones(n, bool)
    logs = np.log(weights, where=weights > 0, out=np.zeros_like(weights))
    entropy = -(weights * logs).sum(-1)
    return {
        "entropy": (entropy, j > 0),
        "normalised": (entropy / np.log(np.maximum(j + 1, 2)), j > 0),
        "peak": (weights.max(-1), every),
        "sink": (weights[:, 0], every),
        "self": (np.diagonal(weights), every),
        "previous": (np.append(0, np.diagonal(weights, -1)), j > 0),
        "local": ((weights * (np.abs(i - j) <= 2)).sum(-1), every),
        "distance": ((weights * np.abs(i - j)).sum(-1), j > 0),
        "duplicate": ((weights * copy).sum(-1), copy.any(-1)),
        "induction": ((weights * after_copy).sum(-1), after_copy.any(-1)),
    }


def test_every_figure_is_the_mean_over_the_queries_that_can_show_it(run, rows):
    passed, ids, _ = run
    for (layer, head), row in rows.items():
        for weights, said in (
            (passed.maps[layer][head], row.weight),
            (passed.value_weighted(layer)[head], row.value_weighted),
        ):
            wanted = by_definition(np.asarray(weights, np.float64), ids)
            assert said["next"] is None
            assert set(said) == {*wanted, "next"} == {figure.name for figure in FIGURES}
            for name, (value, counts) in wanted.items():
                assert said[name] == pytest.approx(value[counts].mean(), rel=1e-5, abs=1e-6), name


def test_every_head_has_a_row_in_the_order_of_the_layers(rows):
    assert list(rows) == [(layer, head) for layer in range(2) for head in range(4)]


def test_only_the_layers_asked_for_are_computed(run, rows):
    passed, ids, own = run
    assert list(table(passed, ids, own, layers=[1])) == [rows[1, head] for head in range(4)]


def test_without_ids_what_needs_them_is_absent(run):
    row = next(table(run[0]))
    assert row.weight["induction"] is None
    assert row.weight["entropy"] is not None


def test_a_text_too_short_to_tell_gives_no_number():
    model = models.load("induction")
    ids, _ = model.tokens("ab")
    assert len(ids) < FEWEST
    assert set(next(table(model.run(ids), ids)).weight.values()) == {None}


def test_padding_counts_for_nothing():
    torch.manual_seed(0)
    model = transformers.AutoModel.from_config(LLAMA).eval()
    ids, mask = torch.tensor([[0, 0, 3, 7, 11, 7, 3, 5]]), torch.tensor([[0, 0, 1, 1, 1, 1, 1, 1]])
    positions = torch.tensor([[0, 0, 0, 1, 2, 3, 4, 5]])
    padded = qkv.trace(model, {"input_ids": ids, "attention_mask": mask, "position_ids": positions})
    alone = qkv.trace(model, {"input_ids": ids[:, 2:]})
    for a, b in zip(table(padded), table(alone), strict=True):
        for name in ("entropy", "peak", "previous", "local", "distance"):
            assert a.weight[name] == pytest.approx(b.weight[name], abs=1e-5), name


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("models") / "little"
    torch.manual_seed(0)
    transformers.AutoModelForCausalLM.from_config(LLAMA).save_pretrained(place)
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: at for at, word in enumerate(WORDS)}, "<unk>"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    words.post_processor = tokenizers.processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 0)])
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=words, bos_token="<s>", unk_token="<unk>")  # noqa: S106
    fast.save_pretrained(place)
    return place


def test_a_folder_reads_text(folder):
    model = pretrained(folder)
    assert (model.name, model.n_layers, model.n_heads, model.max_length) == ("little", 2, 4, 12)
    ids, tokens = model.tokens(TEXT)
    assert tokens == ["<s>", *TEXT.split()]
    assert model.own(ids).tolist() == [True] + [False] * 6
    with torch.no_grad():
        eager = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
        want = eager(torch.as_tensor(ids)[None], output_attentions=True).attentions
    passed = model.run(ids)
    for layer, theirs in enumerate(want):
        np.testing.assert_allclose(np.asarray(passed.maps[layer]), theirs[0], atol=1e-6)
        assert isinstance(passed.maps[layer][0, 1], np.ndarray)
        assert passed.value_weighted(layer).shape == passed.even(layer).shape == (4, 7, 7)


def test_more_tokens_than_positions_are_refused(folder):
    with pytest.raises(ArgumentError, match="little takes at most 12 tokens, got 13"):
        pretrained(folder).tokens("the " * 12)


def test_of_a_model_with_encoder_and_decoder_the_encoder_reads(folder, tmp_path):
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_heads": 4, "vocab_size": 20}
    config = transformers.T5Config(**sizes, num_layers=2, num_decoder_layers=3, decoder_start_token_id=0)
    transformers.AutoModel.from_config(config).save_pretrained(tmp_path)
    copy_tokenizer(folder, tmp_path)
    model = pretrained(tmp_path)
    assert (model.n_layers, model.n_heads) == (2, 4)
    assert len(model.run(model.tokens(TEXT)[0]).maps) == 2


def copy_tokenizer(source, target):
    for name in ("tokenizer.json", "tokenizer_config.json"):
        target.joinpath(name).write_bytes(source.joinpath(name).read_bytes())


def test_a_folder_that_cannot_be_looked_into_is_refused_by_name(folder, tmp_path):
    with pytest.raises(ArgumentError, match=r"has no config\.json"):
        pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "nonesuch"}))
    with pytest.raises(ArgumentError, match="transformers cannot load"):
        pretrained(tmp_path)
    config = transformers.Dinov2Config(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, image_size=28)
    transformers.AutoModel.from_config(config).save_pretrained(tmp_path)
    with pytest.raises(ArgumentError, match="takes pixel_values and no text"):
        pretrained(tmp_path)
    transformers.AutoModel.from_config(LLAMA).save_pretrained(tmp_path)
    with pytest.raises(ArgumentError, match="has no tokenizer"):
        pretrained(tmp_path)
    copy_tokenizer(folder, tmp_path)
    transformers.AutoModel.from_config(transformers.MPNetConfig(**SIZES)).save_pretrained(tmp_path)
    with pytest.raises(ArgumentError, match="attention of its own"):
        pretrained(tmp_path)


def test_loading_says_nothing(folder, capfd):
    pretrained(folder)
    assert capfd.readouterr() == ("", "")


def test_tokens_are_written_as_text():
    assert written(["ĠThe", "Ġcaf", "Ã©", "Ċ", "Ã", "<|end|>"], True) == [" The", " caf", "é", "\n", "\\xc3", "<|end|>"]
    assert written(["▁The", "cat", "##s"], False) == [" The", "cat", "##s"]
    assert written(["名前"], True) == ["名前"]  # added as it is
