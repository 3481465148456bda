"""A server of the built site, and a browser that lets nothing from outside through."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from browsing import SITE, Visitor, missing

# No name of the outside is ever found; what a page asks for there fails, and is heard of.
FLAGS = ["--no-sandbox", "--disable-dev-shm-usage", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
# The first does least besides: it has no window.
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def site() -> Iterator[str]:
    """The address of a running `qkv lab`, with the token of its start: opening it lets a browser in."""
    if not (SITE / "index.html").exists():
        missing("the site is not built: make lab")
    command = [sys.executable, "-m", "qkv.cli", "lab", "--no-browser", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            line = next(line for line in server.stdout if "http://127.0.0.1:" in line)
            yield next(word for word in line.split() if word.startswith("http://127.0.0.1:"))
        finally:
            server.terminate()


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Chromium, without a window."""
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        missing("no Chromium here: apt-get install chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("no Playwright here: pip install playwright")
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def visitor(chromium: Any, site: str) -> Iterator[Visitor]:
    """A desktop's browser for all tests: what it has loaded once, it keeps."""
    visitor = Visitor(chromium, site, python=False)
    yield visitor
    visitor.close()


@pytest.fixture
def page(visitor: Visitor) -> Iterator[Any]:
    """Its page, which knows nothing of the tests before. A request to the outside or an error in the console fails."""
    yield visitor.page
    visitor.forget()
    assert not (wrong := visitor.complaints()), wrong
