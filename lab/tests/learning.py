"""A lesson's page in a browser: writing a program into it, having it run or judged, and reading what the page says."""

import json
from pathlib import Path
from typing import Any

from browsing import SITE, missing

LESSON = Path(__file__).parents[1] / "src" / "qkv_lab" / "lessons" / "1-queries-keys-values"
SOLUTION = (LESSON / "solution.py").read_text(encoding="utf-8")
PAGE = "/lesson-queries-keys-values.html"
BOOT = 90_000  # ms: Python starts in 4 s on an idle machine, and in ten times that on one that tests all it has


def opened(page: Any) -> Any:
    """The page at the first lesson, its editor loaded."""
    if not (SITE / "pyodide" / "pyodide.mjs").exists():
        missing("the site has no Python in it: python lab/fetch.py, and build the site")
    page.goto(PAGE)
    page.locator(".cm-content").wait_for()
    return page


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


def kept(page: Any, slug: str = "queries-keys-values") -> dict[str, Any]:
    entries = json.loads(page.evaluate("localStorage.getItem('qkv.progress')"))["entries"]
    return dict(entries[f"lesson.{slug}"])
