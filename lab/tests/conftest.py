"""A server of the built site, and a browser that lets nothing from outside through."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from browsing import SITE, missing, watched


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
    """Debian's Chromium, without a window."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        missing("no Chromium here: apt-get install chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("no Playwright here: pip install playwright")
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield browser
        browser.close()


@pytest.fixture
def page(chromium: Any, site: str) -> Iterator[Any]:
    """A desktop's page, at the start of the site."""
    with watched(chromium, site, viewport={"width": 1280, "height": 900}) as page:
        yield page
