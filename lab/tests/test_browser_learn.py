"""The lesson page: typed answers, code that is run, stopped and judged, progress, and all of it by keyboard."""

import functools
import http.server
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from browsing import SITE, missing, watched

LESSON = Path(__file__).parents[1] / "src" / "qkv_lab" / "lessons" / "1-queries-keys-values"
SOLUTION = (LESSON / "solution.py").read_text(encoding="utf-8")
MUTANTS = sorted((LESSON / "mutants").glob("*.py"), key=lambda path: path.name)
PAGE = "/lesson-queries-keys-values.html"
BOOT = 90_000  # ms: Python starts in 4 s on an idle machine, and in ten times that on one that tests all it has
SWALLOWS = "while True:\n    try:\n        while True: pass\n    except BaseException: pass"


class Quiet(http.server.SimpleHTTPRequestHandler):
    """The server of the standard library, without its log."""

    extensions_map: ClassVar = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".mjs": "text/javascript"}

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module", autouse=True)
def _python() -> None:
    if not (SITE / "pyodide" / "pyodide.mjs").exists():
        missing("the site has no Python in it: python lab/fetch.py, and build the site")


@pytest.fixture
def plain(chromium: Any) -> Iterator[Any]:
    """A page from a plain file server, which sends none of the headers that isolate a page."""
    handler = functools.partial(Quiet, directory=SITE)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with watched(chromium, f"http://127.0.0.1:{server.server_port}/") as page:
            yield page
        server.shutdown()


@pytest.fixture
def lesson(page: Any) -> Any:
    page.goto(PAGE)
    page.locator(".cm-content").wait_for()
    return page


@pytest.fixture(scope="module")
def warm(chromium: Any, site: str) -> Iterator[Any]:
    """One page for many programs, so that Python starts once; each test leaves it idle."""
    with watched(chromium, site, viewport={"width": 1280, "height": 900}) as page:
        page.goto(PAGE)
        page.locator(".cm-content").wait_for()
        run(page, "print('ready')", "Ran in", BOOT)
        yield page


def write(page: Any, source: str) -> None:
    """Puts a program into the editor as a paste does: typed, each line would be indented as the last."""
    page.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(source + "\n")


def says(page: Any, text: str, timeout: int = 20_000) -> str:
    """Waits for what the page says of the code, and gives all of it."""
    line = page.get_by_role("status").filter(has_text=text).last
    line.wait_for(timeout=timeout)
    return str(line.inner_text())


def run(page: Any, source: str, until: str = "Ran in", timeout: int = 20_000) -> str:
    """Runs a program and gives what it printed."""
    write(page, source)
    page.keyboard.press("Control+Enter")
    says(page, until, timeout)
    output = page.get_by_label("What your code printed")
    return str(output.inner_text()) if output.count() else ""


def check(page: Any, source: str) -> str:
    write(page, source)
    page.get_by_role("button", name="Check", exact=True).last.click()
    return says(page, "function", BOOT)


def stopped(page: Any, source: str) -> float:
    """Runs a program that does not end, stops it, and gives the seconds that took."""
    run(page, source, "Running", BOOT)
    page.wait_for_timeout(300)
    start = page.evaluate("performance.now()")
    page.get_by_role("button", name="Stop").click()
    says(page, "Stopped.", 5_000)
    return float(page.evaluate("performance.now()") - start) / 1000


def kept(page: Any, slug: str = "queries-keys-values") -> dict[str, Any]:
    entries = json.loads(page.evaluate("localStorage.getItem('qkv.progress')"))["entries"]
    return dict(entries[f"lesson.{slug}"])


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


def test_code_that_is_run_before_python_is_there_waits_for_it(lesson: Any) -> None:
    printed = run(lesson, "import numpy as np\nprint(np.array([1, 2]) @ np.array([[1, 0], [1, 1]]))", "Ran in", BOOT)
    assert printed.strip() == "[3 2]"


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
        "import urllib.request; urllib.request.urlopen('http://127.0.0.1/')",
    ):
        run(warm, source, "error in line 1")


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
    plain.goto(PAGE)
    plain.locator(".cm-content").wait_for()
    assert plain.evaluate("crossOriginIsolated") is False
    run(plain, "print(1)", "Ran in", BOOT)
    stopped(plain, SWALLOWS)
    assert run(plain, "print(2)", "Ran in", BOOT).strip() == "2"


# ---- Progress ------------------------------------------------------------------------------------------------


def answer(page: Any) -> None:
    for label, text in (("q =", "3 2"), ("k =", "2 1"), ("v =", "2 4"), ("letter", "V")):
        page.get_by_label(label).fill(text)
        page.get_by_label(label).press("Enter")
    page.get_by_role("button", name="The values", exact=False).first.click()
    write(page, "x = 'my own code'")
    page.wait_for_function("() => localStorage.getItem('qkv.progress').includes('my own code')")


def test_progress_is_there_after_a_reload(lesson: Any) -> None:
    answer(lesson)
    lesson.reload()
    lesson.locator(".cm-content").filter(has_text="my own code").wait_for()
    assert lesson.get_by_label("q =").input_value() == "3 2"
    steps = lesson.get_by_role("list", name="Steps of this lesson")
    for step in ("Predict (done)", "By hand (done)", "In code (open)", "Check (open)"):
        steps.get_by_role("link", name=step, exact=True).wait_for()


def test_starting_over_asks_first(lesson: Any) -> None:
    write(lesson, "x = 'my own code'")
    lesson.get_by_role("button", name="Start over").click()
    lesson.get_by_role("button", name="Keep my code").click()
    assert "my own code" in lesson.locator(".cm-content").inner_text()
    lesson.get_by_role("button", name="Start over").click()
    lesson.get_by_role("dialog").get_by_role("button", name="Start over").click()
    assert "def project_qkv" in lesson.locator(".cm-content").inner_text()
    lesson.wait_for_function("() => !localStorage.getItem('qkv.progress').includes('draft')")


def test_progress_goes_to_another_browser_and_loses_nothing_there(
    lesson: Any, chromium: Any, site: str, tmp_path: Path
) -> None:
    answer(lesson)
    lesson.goto("/learn.html")
    with lesson.expect_download() as download:
        lesson.get_by_role("button", name="Save to a file").click()
    file = tmp_path / download.value.suggested_filename
    download.value.save_as(file)
    with watched(chromium, site) as other:
        other.goto(PAGE)
        write(other, "x = 'written here'")
        other.wait_for_function("() => localStorage.getItem('qkv.progress')?.includes('written here')")
        other.goto("/learn.html")
        choose = other.get_by_label("A file with progress")
        choose.set_input_files(file)
        assert "Your own code stays in one lesson" in says(other, "is brought in")
        assert kept(other)["draft"].strip() == "x = 'written here'"
        assert kept(other)["typed"] is True
        (tmp_path / "other.json").write_text('{"madeBy": "another"}', encoding="utf-8")
        before = kept(other)
        choose.set_input_files(tmp_path / "other.json")
        assert "It is not progress from qkv lab. Nothing has changed." in says(other, "was not brought in")
        assert kept(other) == before
        other.get_by_role("button", name="Delete progress").click()
        other.get_by_role("dialog").get_by_role("button", name="Keep").click()
        assert kept(other) == before
        other.get_by_role("button", name="Delete progress").click()
        other.get_by_role("dialog").get_by_role("button", name="Delete").click()
        says(other, "Progress is deleted.")
        assert other.get_by_text("(done)").count() == 0


# ---- The keyboard --------------------------------------------------------------------------------------------


def tab_to(page: Any, holds: Callable[[str], bool], most: int = 60) -> None:
    """Presses Tab until what has the focus is called so."""
    for _ in range(most):
        page.keyboard.press("Tab")
        name = page.evaluate(
            """() => {
                let at = document.activeElement;
                while (at.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
                return at.ariaLabel ?? at.labels?.[0]?.innerText ?? at.innerText ?? "";
            }"""
        )
        if holds(name):
            return
    raise AssertionError("Tab never gets there")


def test_a_lesson_is_done_without_a_mouse(lesson: Any) -> None:
    tab_to(lesson, lambda name: name == "x[0]")
    lesson.keyboard.press("ArrowRight")
    figure = lesson.get_by_role("figure")
    assert figure.locator("tbody output").all_inner_texts() == ["[3.5, 2]", "[2, 1.5]", "[3, 4]"]
    tab_to(lesson, lambda name: "The values" in name)
    lesson.keyboard.press("Enter")
    lesson.get_by_text("Right.").wait_for()
    for label, text in (("q =", "3 2"), ("k =", "2 1"), ("v =", "2 4"), ("letter", "V")):
        tab_to(lesson, lambda name, label=label: label in name.replace("\u00a0", " "))
        lesson.keyboard.type(text)
        lesson.keyboard.press("Enter")
    tab_to(lesson, lambda name: name.startswith("Your Python code"))
    lesson.keyboard.press("Control+a")
    lesson.keyboard.insert_text(SOLUTION)
    lesson.keyboard.press("Control+Shift+Enter")
    says(lesson, "All 4 functions pass.", BOOT)
    lesson.keyboard.press("Escape")
    tab_to(lesson, lambda name: name == "Check", most=1)
    tab_to(lesson, lambda name: name.startswith("Stuck?"))
    lesson.keyboard.press("Enter")
    lesson.get_by_text("Another hint (2 of 4)").wait_for()
    tab_to(lesson, lambda name: "there is one value for each key" in name)
    lesson.keyboard.press("Enter")
    steps = lesson.get_by_role("list", name="Steps of this lesson")
    assert steps.get_by_text("(done)").count() == 4
    tab_to(lesson, lambda name: name.startswith("Reference"))
    lesson.keyboard.press("Enter")
    lesson.get_by_role("heading", name="Common mistakes").wait_for()
