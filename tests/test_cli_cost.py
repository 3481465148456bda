"""`qkv cost`: tables and JSON that say what `qkv.cost` counts, and one line for what cannot be counted."""

import json
import os
import subprocess
from dataclasses import asdict

import pytest

from command import COMMAND, refused, run
from qkv import cost
from qkv.cli import _bill

LAYER = ["--d", "512", "--heads", "8", "--n", "100"]


def shown(*words):
    code, out, err = run("cost", *words)
    assert (code, err) == (0, "")
    return out


def said(*words):
    return json.loads(shown(*words, "--json"))


def numbers(page, title, row):
    """The cells of a row of the table under this title, without its name and notes."""
    lines = page.split(f"{title}\n")[1].split("\n\n")[0].splitlines()
    found = next(line for line in lines if line.startswith(row))
    return [cell.strip() for cell in found.split("  ") if cell.strip()]


# ---- the page -----------------------------------------------------------------------------------------------


def test_without_a_model_the_built_in_ones_stand_side_by_side():
    lines = shown().splitlines()
    assert [line.split()[0] for line in lines[2:6]] == list(cost.MODELS)
    assert lines[5].split() == "llama-3-8b 32 32:8 4,096 8,192 8.03 G 70.3 T 2.15 GB".split()
    assert "none" in lines[2]


def test_vit_at_196_tokens_shows_the_numbers_of_the_lesson():
    page = shown("vit-b-16", "--n", "196")
    layer, memory, kinds = "One attention layer", "Its memory", "Kinds of layer at n = 196 and d = 768"
    assert numbers(page, layer, "scores")[2] == numbers(page, layer, "average")[2] == "29.5 M"
    assert numbers(page, layer, "projections")[2:] == ["462 M", "88.7%"]
    assert "The projections take 7.84 times as many as the pairs." in page
    assert numbers(page, layer, "scores")[1] == "Q Kᵀ, 38,416 pairs a head"
    assert numbers(page, memory, "weights")[2:] == ["460,992", "1.84 MB"]
    assert numbers(page, kinds, "recurrent") == ["recurrent", "n·d²", "116 M", "196", "196"]
    assert "fewer than a recurrent layer (they are equal at n = 768)" in page
    assert "Longer than" not in page


def test_at_pixel_resolution_the_order_flips_and_a_head_stores_10_gigabytes():
    page = shown("--d", "768", "--heads", "1", "--n", "50176")
    assert "Self-attention takes more than a recurrent layer" in " ".join(page.split())
    assert numbers(page, "Its memory", "weights")[-1] == "10.1 GB"
    assert "Longer than the 197 tokens it was built for." in shown("vit-b-16", "--n", "50176")


def test_a_step_with_a_cache_says_what_it_costs_and_what_is_kept():
    page = shown("llama-3-8b", "--n", "1", "--cached", "8191", "--dtype", "bfloat16")
    assert "1 token after 8,191 in the cache, each sees those before it, bfloat16." in page
    assert "32 heads, 8 key heads" in page
    assert numbers(page, "One attention layer", "scores")[1] == "Q Kᵀ, 8,192 pairs a head"
    assert "Their cache is 1.07 GB." in page
    assert numbers(page, "All 32 layers and the rest, as LlamaForCausalLM", "all")[1] == "8.03 G"
    assert "Two scores in one head of width 128, 8,192 · 8,192 pairs" in page


def test_cross_attention_has_no_kinds_beside_it_and_no_cache_unless_asked():
    page = shown(*LAYER, "--memory", "30")
    assert "100 tokens over a memory of 30" in page
    assert "One cross-attention layer" in page and "Kinds" not in page and "cache" not in page
    assert "cache" in shown(*LAYER, "--memory", "30", "--cached", "30")


def test_a_window_is_told_and_a_tied_matrix_has_no_parameters(tmp_path):
    config = {
        "model_type": "mistral", "hidden_size": 24, "num_attention_heads": 6, "num_key_value_heads": 2,
        "num_hidden_layers": 2, "intermediate_size": 20, "vocab_size": 31, "sliding_window": 5,
        "tie_word_embeddings": True,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    page = shown(str(tmp_path), "--n", "9")
    assert "A window of 5 keys in every layer." in page
    assert numbers(page, "All 2 layers and the rest, as MistralForCausalLM", "logits")[1] == "tied"
    mixed = {**config, "model_type": "x", "layer_types": ["sliding_attention", "full_attention"]}
    (tmp_path / "mixed.json").write_text(json.dumps(mixed), encoding="utf-8")
    page = shown(str(tmp_path / "mixed.json"), "--n", "9", "--causal", "--biases", "")
    assert "A window of 5 keys in 1 of 2 layers; layer 0 is shown." in page
    assert "Beside attention nothing is counted" in " ".join(page.split())


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("words", [[], ["gpt2"], ["llama-3-8b", "--n", "100000"], [*LAYER, "--memory", "30"]])
def test_no_line_is_wider_than_the_terminal_and_no_number_is_cut(monkeypatch, words, width):
    monkeypatch.setattr("shutil.get_terminal_size", lambda *_: os.terminal_size((width, 24)))
    page = shown(*words)
    assert max(map(len, page.splitlines())) <= width
    assert "…" not in page


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (999_999, "999,999"), (10**6, "1.00 M"), (9_994_999, "9.99 M"), (9_995_000, "10.0 M"),
     (29_503_488, "29.5 M"), (99_949_999, "99.9 M"), (99_950_000, "100 M"), (999_499_999, "999 M"),
     (999_500_000, "1.00 G"), (8_030_261_248, "8.03 G"), (5 * 10**21, "5,000 E")],
)  # fmt: skip
def test_a_count_has_three_digits(number, text):
    assert _bill.count(number) == text


def test_bytes_come_in_powers_of_1000():
    assert [_bill.size(each) for each in (0, 999, 1000, 1_843_968, 10_070_523_904)] == [
        "0 B", "999 B", "1.00 kB", "1.84 MB", "10.1 GB",
    ]  # fmt: skip


# ---- JSON ---------------------------------------------------------------------------------------------------


def test_json_says_what_the_library_counts():
    found = said("gpt2", "--n", "10", "--batch", "3", "--r", "4", "--k", "5", "--dtype", "float16")
    model = cost.model("gpt2")
    whole = model.cost(10, batch=3, dtype="float16")
    assert found["layer"] == {**asdict(model.layer), "parameters": model.layer.parameters}
    assert found["cost"].items() >= asdict(whole.layers[0]).items()
    assert found["cost"]["kv_cache_bytes"] == whole.layers[0].kv_cache_bytes
    assert found["model"]["parameters"] == model.parameters
    assert found["model"]["multiply_adds"] == {"attention": whole.attention, **whole.other}
    assert found["kinds"] == [asdict(kind) for kind in cost.kinds(10, 768, 5, 4)]
    assert found["flips"] == [asdict(flip) for flip in cost.flips(768, 5)]
    assert found["scores"] == [asdict(cost.dot(10, 10, 64)), asdict(cost.additive(10, 10, 64))]
    assert (found["name"], found["batch"], found["dtype"], found["causal"]) == ("gpt2", 3, "float16", True)


def test_json_of_a_layer_of_your_own():
    found = said(*LAYER, "--kv-heads", "2", "--causal", "--biases", "qv", "--cached", "5")
    layer = cost.layer(512, 8, 2, biases="qv")
    assert found["cost"].items() >= asdict(layer.cost(100, causal=True, cached=5)).items()
    assert found["model"] is None
    assert said(*LAYER)["causal"] is False


def test_json_of_all_built_in_models():
    found = said()
    assert list(found["models"]) == list(cost.MODELS)
    assert found["models"]["vit-b-16"]["tokens"] == 197
    assert found["models"]["bert-base"]["kv_cache_bytes"] is None


# ---- help, errors, colours ----------------------------------------------------------------------------------


def test_help_shows_examples_that_work():
    examples = [line.split()[2:] for line in shown("--help").splitlines() if line.startswith("    qkv cost")]
    assert len(examples) >= 5
    for words in examples:
        if "path/to/config.json" not in words:
            shown(*words)


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["bert"], ["MODEL must be bert-base, ", "no file 'bert'"]),
        (["gpt2", "--heads", "3"], ["--heads", "leave MODEL out"]),
        (["gpt2", "--memory", "3"], ["--memory", "leave MODEL out"]),
        (["gpt2", "--n", "0"], ["--n", "see qkv cost --help"]),
        (["gpt2", "--n", "ten"], ["--n", "see qkv cost --help"]),
        (["gpt2", "--dtype", "int4"], ["--dtype must be one of float64", "'int4'"]),
        (["gpt2", "--n", "8", "--r", "9"], ["--r 9 must be at most the 8 tokens"]),
        (["gpt2", "more"], ["more", "see qkv cost --help"]),
        (["bert-base", "--cached", "3"], ["cached must be 0 for bert-base"]),
        (["--d", "768"], ["--d needs --heads"]),
        (["--d", "768", "--heads", "12"], ["--d needs --n"]),
        (["--d", "768", "--heads", "7", "--n", "3"], ["--heads 7 must divide --d 768"]),
        (["--d", "768", "--heads", "12", "--kv-heads", "5", "--n", "3"], ["n_kv_heads must divide n_heads"]),
        (["--d", "8", "--heads", "2", "--n", "3", "--biases", "x"], ['biases must be letters of "qkvo"']),
        (
            ["--d", "8", "--heads", "2", "--n", "3", "--memory", "4", "--cached", "5"],
            ["cached must be at most n_k = 4"],
        ),
        (["--n", "5"], ["--n needs a MODEL, or --d and --heads"]),
        (["--cached", "5"], ["--cached needs a MODEL"]),
        (["--heads", "5"], ["--heads needs a MODEL"]),
    ],
)
def test_what_is_asked_wrongly_ends_with_2_and_a_line_that_says_what_to_do(words, parts):
    refused(["cost", *words], 2, "qkv cost: ", *parts)


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("{", ["is not JSON"]),
        ("[1]", ["holds no JSON object"]),
        ('{"hidden_size": 8}', ["config has no num_attention_heads"]),
        ('{"hidden_size": 8, "num_heads": 2, "n_layer": 3}', ["does not say causal and biases, which must be given"]),
        (json.dumps({**cost.MODELS["gpt2"], "kv_lora_rank": 4}), ["config sets kv_lora_rank = 4"]),
        ("\xff", ["is not JSON"]),
    ],
)
def test_a_config_that_cannot_be_counted_ends_with_1_and_a_line_that_names_why(tmp_path, content, parts):
    path = tmp_path / "config.json"
    path.write_text(content, encoding="latin-1")
    refused(["cost", str(path)], 1, "qkv cost: ", *parts)
    refused(["cost", str(tmp_path)], 1, *parts)


def test_a_model_that_is_causal_is_not_counted_otherwise():
    refused(["cost", "gpt2", "--no-causal"], 1, "causal = False contradicts the config")


def test_a_config_without_a_length_needs_one(tmp_path):
    path = tmp_path / "small.json"
    path.write_text('{"hidden_size": 8, "num_heads": 2, "n_layer": 3}', encoding="utf-8")
    refused(["cost", str(path), "--causal", "--biases", ""], 2, "does not say how many tokens it takes; give --n")


@pytest.mark.parametrize(("force", "coloured"), [({"FORCE_COLOR": "1", "TERM": "xterm-256color"}, True), ({}, False)])
def test_colours_come_to_a_terminal_and_not_into_a_pipe(force, coloured):
    kept = {key: value for key, value in os.environ.items() if key not in {"NO_COLOR", "FORCE_COLOR"}}
    out = subprocess.run([*COMMAND, "cost", "gpt2"], env={**kept, **force}, capture_output=True, check=True).stdout
    assert (b"\x1b[1mOne attention layer\x1b[0m" in out) is coloured
    assert (b"\x1b" in out) is coloured
