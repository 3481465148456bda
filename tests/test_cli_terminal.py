"""What the other side of the command line gets: a terminal of some kind, a pipe, a file, a full disk, Ctrl-C."""

import io
import os
import re
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from command import COMMAND
from qkv.cli import _terminal

LOOK = [*COMMAND, "look", "--model", "induction"]
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
needs_posix = pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals and signals of POSIX")


def environment(**changes):
    """The variables of this process without those that speak of colour or width, and with the changes."""
    dropped = {"NO_COLOR", "FORCE_COLOR", "COLORTERM", "COLUMNS", "LINES"}
    return {name: value for name, value in os.environ.items() if name not in dropped} | {"TERM": "xterm"} | changes


def on_a_terminal(columns, command=LOOK, errors=subprocess.DEVNULL, **variables):
    """What a command sends to a terminal of this many columns; with errors=None also what it says on stderr."""
    import pty
    import termios

    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (50, columns))
    errors = theirs if errors is None else errors
    running = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=errors, env=environment(**variables))
    os.close(theirs)
    parts = []
    with suppress(OSError):  # a closed terminal reads as an error
        while select.select([ours], [], [], 60)[0] and (part := os.read(ours, 65536)):
            parts.append(part)
    os.close(ours)
    assert running.wait(60) == 0
    return b"".join(parts).decode().replace("\r\n", "\n")


@pytest.mark.parametrize(
    ("variables", "is_terminal", "want"),
    [
        ({"TERM": "xterm-256color"}, True, "256"),
        ({"TERM": "xterm"}, True, "256"),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, True, "truecolor"),
        ({"TERM": "xterm-256color", "COLORTERM": "24bit"}, True, "truecolor"),
        ({"TERM": "xterm-direct"}, True, "truecolor"),
        ({"TERM": "dumb", "COLORTERM": "truecolor"}, True, "none"),
        ({}, True, "none"),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, False, "none"),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, True, "none"),
        ({"TERM": "xterm-256color", "NO_COLOR": ""}, True, "256"),
        ({"TERM": "xterm", "FORCE_COLOR": "1"}, False, "256"),
        ({"COLORTERM": "truecolor", "FORCE_COLOR": "1"}, False, "truecolor"),
        ({"TERM": "xterm", "FORCE_COLOR": "0"}, False, "none"),
        ({"TERM": "xterm", "FORCE_COLOR": "1", "NO_COLOR": "1"}, True, "none"),
    ],
)
def test_colours_are_those_of_the_terminal(variables, is_terminal, want):
    assert _terminal.colour(variables, is_terminal=is_terminal) == want


@needs_posix
@pytest.mark.parametrize(
    ("variables", "sent", "not_sent"),
    [
        ({"COLORTERM": "truecolor"}, "\x1b[48;2;", "8;5;"),
        ({"TERM": "xterm-256color"}, "\x1b[48;5;", "8;2;"),
        ({"NO_COLOR": "1"}, "│", "\x1b"),
        ({"TERM": "dumb"}, "│", "\x1b"),
    ],
    ids=["truecolour", "256", "no colour", "dumb"],
)
def test_a_terminal_gets_the_colours_that_it_can_show(variables, sent, not_sent):
    page = on_a_terminal(80, **variables)
    assert sent in page
    assert not_sent not in page
    assert not ESCAPE.sub("", page).count("\x1b")


@needs_posix
@pytest.mark.parametrize("columns", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal(columns):
    lines = ESCAPE.sub("", on_a_terminal(columns)).splitlines()
    assert max(map(len, lines)) <= columns


@needs_posix
def test_a_wider_terminal_gets_wider_cells():
    widths = {len(max(ESCAPE.sub("", on_a_terminal(columns)).splitlines(), key=len)) for columns in (60, 140)}
    assert len(widths) == 2


def test_a_pipe_gets_plain_text_of_80_columns():
    variables = environment(TERM="xterm-256color", COLORTERM="truecolor", PYTHONUTF8="1")
    done = subprocess.run(LOOK, env=variables, capture_output=True, text=True, encoding="utf-8", check=True)
    assert "\x1b" not in done.stdout
    assert 72 <= max(map(len, done.stdout.splitlines())) <= 80


def test_a_text_comes_from_stdin():
    done = subprocess.run(
        [*COMMAND, "look", "-", *LOOK[-2:], "--json"], input=b"abcabc\n", capture_output=True, check=True
    )
    assert b'"text": "abcabc"' in done.stdout


def test_a_reader_that_has_seen_enough_ends_it_quietly():
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(LOOK, stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_one_line_and_exit_code_1():
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(LOOK, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("qkv look: cannot write to stdout: ")
    assert done.stderr.count("\n") == 1


@needs_posix
def test_ctrl_c_ends_it_quietly_with_130():
    code = "import sys; from qkv.cli import main, _app; print('ready', flush=True); sys.exit(main())"
    words = [sys.executable, "-c", code, "look", "-", "--model", "induction"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout.readline() == b"ready\n"
        with suppress(subprocess.TimeoutExpired):  # until it waits for the text
            running.wait(0.5)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    assert (running.returncode, out, err.strip()) == (130, b"", b"")


def test_an_output_of_another_encoding_gets_what_it_can_show(monkeypatch):
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", narrow)
    _terminal.write("weight │ 0.71 ██")
    assert narrow.buffer.getvalue() == b"weight ? 0.71 ??\n"


# The bar.

SLOWLY = """
import sys, time
from qkv.cli import _bar, _source, main
_bar.PATIENCE = float(sys.argv.pop(1))
load = _source.load
_source.load = lambda name: (time.sleep(0.5), load(name))[1]
sys.exit(main())
"""


def slowly(verb, patience):
    return [sys.executable, "-c", SLOWLY, str(patience), verb, "--model", "induction"]


@needs_posix
@pytest.mark.parametrize("verb", ["look", "heads"])
def test_work_that_takes_a_while_shows_a_bar_that_goes_again(verb):
    sent = on_a_terminal(80, slowly(verb, 0.05), errors=None)
    bar, _, page = sent.rpartition("\x1b[?25h")  # the cursor is there again
    assert "loading induction" in bar
    assert "\x1b[2K" in bar + page  # its line is cleared
    assert "loading" not in page
    assert "induction" in page


@needs_posix
@pytest.mark.parametrize("verb", ["look", "heads"])
def test_quick_work_and_a_pipe_see_no_bar(verb):
    assert "loading" not in on_a_terminal(80, slowly(verb, 30), errors=None)
    done = subprocess.run(slowly(verb, 0), env=environment(), capture_output=True, check=True)
    assert done.stderr == b""
    assert b"loading" not in done.stdout
