"""The lesson page: typed answers, and code that is run, stopped and judged."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import SITE, served, watched
from learning import BOOT, LESSON, SOLUTION, check, kept, opened, run, says, write

MUTANTS = sorted((LESSON / "mutants").glob("*.py"), key=lambda path: path.name)
EARLY = "import numpy as np\nprint(np.array([1, 2]) @ np.array([[1, 0], [1, 1]]))"
SWALLOWS = "while True:\n    try:\n        while True: pass\n    except BaseException: pass"


@pytest.fixture
def plain(chromium: Any) -> Iterator[Any]:
    """A page from a plain file server, which sends none of the headers that isolate a page."""
    with served(SITE) as address, watched(chromium, address) as page:
        yield page


@pytest.fixture(scope="module")
def warm(chromium: Any, site: str) -> Iterator[Any]:
    """One page for many programs, so that Python starts once; each test leaves it idle."""
    with watched(chromium, site) as page:
        opened(page)
        page.get_by_role("progressbar").wait_for()  # it starts by itself, once the page is at rest
        assert run(page, EARLY, "Ran in", BOOT).strip() == "[3 2]"  # code that comes before it is there waits for it
        yield page


def stopped(page: Any, source: str) -> float:
    """Runs a program that does not end, stops it, and gives the seconds that took."""
    run(page, source, "Running", BOOT)
    page.wait_for_timeout(300)
    start = page.evaluate("performance.now()")
    page.get_by_role("button", name="Stop").click()
    says(page, "Stopped.", 5_000)
    return float(page.evaluate("performance.now()") - start) / 1000


# ---- Part 1: typed answers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("label", "text", "said"),
    [
        ("q =", "[3, 2]", "Right."),
        ("q =", "3 2", "Right."),
        ("q =", "(3.0; 4/2)", "Right."),
        ("q =", "[2, 1]", "A known slip. That is"),
        ("q =", "7 2", "Not yet: the first number is off."),
        ("q =", "3", "That is one number; this asks for 2 numbers"),
        ("v =", "two", "“two” is not a number."),
        ("letter", "v", "Right."),
        ("letter", "K", "A known slip. Keys are what a query is compared with."),
        ("letter", "the values", "This asks for one letter."),
    ],
)
def test_a_typed_answer_is_read_and_judged(warm: Any, label: str, text: str, said: str) -> None:
    form = warm.locator("form", has=warm.get_by_label(label))
    form.get_by_label(label).fill(text)
    form.get_by_role("button", name="Check").click()
    assert said in form.get_by_role("status").inner_text()


# ---- Part 2: code --------------------------------------------------------------------------------------------


def test_output_comes_while_a_program_runs(warm: Any) -> None:
    run(warm, "print('before')\nwhile True: pass", "Running")
    warm.get_by_label("What your code printed").filter(has_text="before").wait_for()
    warm.get_by_role("button", name="Stop").click()
    says(warm, "Stopped.")


def test_output_is_bounded(warm: Any) -> None:
    printed = run(warm, "for i in range(10**5): print(i)")
    assert len(printed) < 21_000
    assert printed.rstrip().endswith("which is left out")


def test_the_solution_passes(warm: Any) -> None:
    assert check(warm, SOLUTION) == "All 4 functions pass."
    assert kept(warm)["code"] is True


@pytest.mark.parametrize("mutant", MUTANTS, ids=[path.stem for path in MUTANTS])
def test_each_wrong_program_is_named(warm: Any, mutant: Path) -> None:
    source = mutant.read_text(encoding="utf-8")
    name = source.split('"""')[1].splitlines()[0].strip()
    assert check(warm, f"{SOLUTION}\n\n{source}") != "All 4 functions pass."
    slips = warm.get_by_text("A known slip: ", exact=False).all_inner_texts()
    assert any(f"A known slip: {name}." in slip for slip in slips), slips


def test_a_failing_function_shows_its_test_and_its_line(warm: Any) -> None:
    lines = len(SOLUTION.splitlines())
    source = f"{SOLUTION}\ndef param_count(d_model, d_k, d_v):\n    return d_model * width"
    assert check(warm, source) == "3 of 4 functions pass."
    failed = warm.get_by_role("listitem").filter(has_text="does not pass yet")
    assert f"It raised NameError in line {lines + 3}" in failed.inner_text()
    assert "raises NameError" in failed.get_by_label("Got by the test of param_count").inner_text()
    assert warm.locator(".cm-fault").inner_text().strip() == "return d_model * width"


@pytest.mark.parametrize(
    ("source", "line", "said"),
    [
        ("x = 1\ndef f(:\n    pass", 2, "SyntaxError"),
        ("def f(x):\n    return x / 0\n\nf(1)", 2, "ZeroDivisionError"),
        ("name = input('who? ')", 1, "nobody can type an input here"),
    ],
)
def test_an_error_points_at_the_learners_own_line(warm: Any, source: str, line: int, said: str) -> None:
    run(warm, source, f"error in line {line}")
    assert warm.locator(".cm-fault").inner_text() == source.splitlines()[line - 1]
    traceback = warm.get_by_label("Traceback").inner_text()
    assert said in traceback
    assert "pyodide" not in traceback
    warm.get_by_role("button", name=f"Go to line {line}").click()
    warm.keyboard.press("End")
    warm.keyboard.type(" ")
    assert warm.locator(".cm-fault").count() == 0


def test_a_program_reaches_no_network(warm: Any) -> None:
    for source in (
        "import js; js.fetch('/x')",
        "from pyodide.http import open_url; open_url('/x')",
        "from pyodide.code import run_js; run_js('1')",
        "import pyodide_js; pyodide_js.constructor.constructor('return 1')()",
        "from js import postMessage",
        "import micropip",
        "import subprocess; subprocess.run(['ls'])",
        "import socket; socket.socket().connect(('127.0.0.1', 80))",
        "import urllib.request; urllib.request.urlopen('http://127.0.0.1/')",
    ):
        run(warm, source, "error in line 1")


@pytest.mark.parametrize(
    "source",
    ["import json\njson.dumps = lambda *_, **__: '{\"ok\": true}'", "import os\nos._exit(3)"],
    ids=["lies about itself", "ends Python"],
)
def test_a_program_that_breaks_its_python_gets_another_one(warm: Any, source: str) -> None:
    run(warm, source, "Python broke down and starts again", BOOT)
    assert run(warm, "print(4)", "Ran in", BOOT).strip() == "4"


def test_a_loop_is_interrupted_and_python_lives_on(warm: Any) -> None:
    run(warm, "print(1)")
    assert stopped(warm, "while True: pass") < 1.5
    assert run(warm, "print(2)").strip() == "2"


@pytest.mark.parametrize(
    "source",
    [SWALLOWS, "import numpy as np\na = np.ones((1800, 1800))\na @ a"],
    ids=["swallows the interrupt", "long call of NumPy"],
)
def test_what_hears_no_interrupt_is_stopped_too(warm: Any, source: str) -> None:
    assert stopped(warm, source) < 4
    assert run(warm, "print(3)", "Ran in", BOOT).strip() == "3"


def test_an_endless_function_is_stopped_while_it_is_checked(warm: Any) -> None:
    write(warm, f"{SOLUTION}\ndef param_count(d_model, d_k, d_v):\n    while True: pass")
    warm.get_by_role("button", name="Check", exact=True).last.click()
    says(warm, "Checking")
    warm.wait_for_timeout(500)
    warm.get_by_role("button", name="Stop").click()
    says(warm, "Stopped.", 5_000)


def test_a_page_without_isolation_stops_by_starting_again(plain: Any) -> None:
    opened(plain)
    assert plain.evaluate("crossOriginIsolated") is False
    run(plain, "print(1)", "Ran in", BOOT)
    stopped(plain, SWALLOWS)
    assert run(plain, "print(2)", "Ran in", BOOT).strip() == "2"
