"""`qkv heads`: the table of all heads, as a page and as JSON, and what it refuses."""

import json
import shlex
from pathlib import Path

import pytest
from rich.cells import cell_len

from command import needs_minilm, refused, run, with_minilm
from qkv import models
from qkv.tracing import FIGURES, table

INDUCTION = ["--model", "induction"]


def page(*words):
    code, out, err = run("heads", *words)
    assert (code, err) == (0, "")
    return out


def found(*words):
    return json.loads(page(*words, "--json"))


@pytest.mark.parametrize("name", ["induction", with_minilm])
def test_json_holds_every_head_and_every_figure_as_computed(name):
    model = models.load(name)
    ids, tokens = model.tokens(model.default_text)
    said = found("--model", name)
    assert (said["model"], said["text"], said["tokens"]) == (name, model.default_text, tokens)
    assert said["figures"].keys() == {figure.name for figure in FIGURES}
    for row, head in zip(said["heads"], table(model.run(ids), ids, model.own(ids)), strict=True):
        assert row == {"layer": head.layer, "head": head.head, **head.weight, "value_weighted": head.value_weighted}


def test_the_induction_heads_come_first_when_sorted_by_induction():
    rows = found(*INDUCTION, "--sort", "induction")["heads"]
    assert {(row["layer"], row["head"]) for row in rows[:4]} == {(1, 0), (1, 1), (1, 2), (1, 3)}
    values = [row["induction"] for row in rows]
    assert values == sorted(values, reverse=True)
    assert min(values[:4]) > 0.9


@needs_minilm
def test_the_previous_token_head_of_minilm_is_the_first_row():
    lines = page("--sort", "previous", "--top", "3").splitlines()
    assert lines[0] == "3 of 72 heads of minilm, by previous, largest first"
    assert lines[4].split()[:3] == ["head", "previous", "value-weighted"]
    assert lines[5].split()[:4] == ["(0,", "2)", "1.00", "1.00"]
    assert lines[8] == ""


def test_a_ranking_shows_the_value_weighted_figure_and_says_that_weights_are_no_explanation():
    ranked, listed = page(*INDUCTION, "--sort", "peak"), page(*INDUCTION)
    assert "value-weighted" in ranked.splitlines()[4]
    for out in (ranked, listed):
        assert "Weights are not an explanation" in out
    assert "not an explanation" in found(*INDUCTION)["note"]


def test_one_layer_alone():
    assert [row["layer"] for row in found(*INDUCTION, "--layer", "1")["heads"]] == [1] * 4
    assert page(*INDUCTION, "--layer", "1").startswith("All heads of layer 1 of induction, by layer\n")


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 200])
def test_no_line_is_wider_than_the_terminal_and_what_has_no_room_is_named(width, monkeypatch):
    monkeypatch.setattr("qkv.cli._terminal.stdout_width", lambda: width)
    out = page(*INDUCTION, "--sort", "distance")
    assert all(cell_len(line) <= width for line in out.splitlines())
    header = next(line for line in out.splitlines() if line.split()[:1] == ["head"]).split()
    told = " ".join(out.split("No room here for ")[1].split(";")[0].split()) if "No room" in out else ""
    assert {*header[1:], *told.split(", ")} - {"value-weighted", ""} == {figure.name for figure in FIGURES} - {"next"}
    assert header[1:3] == ["distance", "value-weighted"]


def test_a_figure_that_the_text_cannot_show_is_named_and_not_sorted_by():
    words = ["abcdefg", *INDUCTION]
    assert "Not enough queries in this text to tell: next, duplicate, induction." in page(*words)
    assert found(*words)["heads"][0]["induction"] is None
    refused(["heads", *words, "--sort", "induction"], 1, "TEXT cannot tell induction")


def test_a_text_too_short_for_any_figure_is_refused():
    refused(["heads", "ab", *INDUCTION], 1, "2 tokens", "at least 3")


@pytest.mark.parametrize(
    ("words", "code", "parts"),
    [
        (["--sort", "loudness"], 2, ["entropy", "induction", "'loudness'"]),
        (["--layer", "2"], 2, ["layers 0 to 1"]),
        (["--layer", "-1"], 2, ["layers 0 to 1"]),
        (["--top", "0"], 2, ["--top"]),
        (["two", "words"], 2, ["between quotes"]),
        (["a#b"], 1, ["'#'"]),
    ],
)
def test_what_is_wrong_is_one_line(words, code, parts):
    refused(["heads", *words, *INDUCTION], code, *parts)


def test_a_model_that_is_neither_name_nor_folder_is_refused():
    refused(["heads", "--model", "gpt2"], 2, "'gpt2' is no folder", "minilm, induction")


def test_a_folder_without_a_model_is_refused(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("transformers", reason="transformers is not installed")
    refused(["heads", "--model", str(tmp_path)], 1, "has no config.json")


def test_a_folder_is_looked_into_by_both_verbs(tmp_path):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    words = "<unk> a b c".split()
    folder = little(tmp_path / "little", torch, transformers, words)
    rows = found("a b c a b", "--model", str(folder))["heads"]
    assert [(row["layer"], row["head"]) for row in rows] == [(0, 0), (0, 1)]
    code, out, err = run("look", "a b c a b", "--model", str(folder), "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["model"] == "little"
    assert json.loads(out)["tokens"] == "a b c a b".split()


def little(folder: Path, torch, transformers, words):
    from tokenizers import Tokenizer, models as kinds, pre_tokenizers

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, vocab_size=len(words)
    )
    transformers.AutoModel.from_config(config).save_pretrained(folder)
    tokenizer = Tokenizer(kinds.WordLevel({word: at for at, word in enumerate(words)}, words[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token=words[0]).save_pretrained(folder)
    return folder


@needs_minilm
def test_help_shows_examples_that_work():
    code, out, err = run("heads", "--help")
    assert (code, err) == (0, "")
    lines = [line.strip() for line in out.split("Examples:")[1].splitlines()]
    examples = [shlex.split(line)[1:] for line in lines if line.startswith("qkv ")]
    assert len(examples) == 4
    for words in examples:
        assert run(*words)[0] == 0, words
