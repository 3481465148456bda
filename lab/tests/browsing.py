"""The built site in a browser: what may be asked of it, and what a figure shows, read back as numbers."""

import contextlib
import functools
import http.server
import io
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import numpy as np
import pytest

SITE = Path(__file__).parents[1] / "src" / "qkv_lab" / "site"
NO_PYTHON = """
    const Real = Worker;
    globalThis.Worker = function (address, options) {
        return /\\/worker-[^/]*$/.test(address) ? {postMessage() {}, terminate() {}} : new Real(address, options);
    };
"""
DESKTOP = {"width": 1280, "height": 900}
SMALL = 0.005  # what the site writes as "<.01"


def missing(what: str) -> None:
    """Skips the test with its reason; where everything must run, fails it."""
    if os.environ.get("CI") == "true":
        pytest.fail(what)
    pytest.skip(what)


class Plain(http.server.SimpleHTTPRequestHandler):
    """The file server of the standard library, without its log."""

    extensions_map: ClassVar = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".mjs": "text/javascript"}

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a folder behind a plain file server, as a class may have it."""
    handler = functools.partial(Plain, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class Visitor:
    """One browser's page of the site, which hears of all that it asks for and all that it complains of.

    Without Python the pages of lessons wait for it for ever: it is most of their work, and few tests need it.
    """

    def __init__(self, chromium: Any, site: str, *, python: bool = True, **options: Any) -> None:
        options = {"viewport": DESKTOP, **options}
        origin = urlsplit(site)._replace(path="", query="").geturl()
        self._context = chromium.new_context(base_url=origin, reduced_motion="reduce", **options)
        self._own = (f"{origin}/", "data:", f"blob:{origin}/")
        self._wrong: list[str] = []
        if not python:
            self._context.add_init_script(NO_PYTHON)
        self.page = self._context.new_page()
        self._devtools = self._context.new_cdp_session(self.page)
        self._context.on("request", self._request)
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self._wrong.append(str(error)))
        self.page.set_default_timeout(20_000)
        self.page.goto(site)

    def _request(self, request: Any) -> None:
        if not request.url.startswith(self._own):
            self._wrong.append(f"asks for {request.url}")

    def _console(self, message: Any) -> None:
        if message.type in {"error", "warning"}:
            self._wrong.append(message.text)

    def complaints(self) -> list[str]:
        """What was wrong since it was asked last: requests to the outside, errors and warnings in the console."""
        wrong, self._wrong = self._wrong, []
        return wrong

    def forget(self) -> None:
        """Leaves the page and all that it kept, for a desktop's in light."""
        self.page.goto("about:blank")
        self._devtools.send("Storage.clearDataForOrigin", {"origin": self._own[0], "storageTypes": "local_storage"})
        self.page.set_viewport_size(DESKTOP)
        self.page.emulate_media(color_scheme="light")

    def close(self) -> None:
        self._context.close()


@contextlib.contextmanager
def watched(chromium: Any, site: str, **options: Any) -> Iterator[Any]:
    """A page in a context of its own. What it asks for from outside, and any error in the console, fails the test."""
    visitor = Visitor(chromium, site, **options)
    yield visitor.page
    visitor.close()
    assert not (wrong := visitor.complaints()), wrong


def figure(page: Any, title: str) -> Any:
    found = page.get_by_role("figure", name=title)
    found.wait_for()
    return found


def number(text: str) -> float:
    """A number as the site writes it: thin spaces, a true minus sign, "<.01", powers of ten."""
    text = text.strip().replace("\u202f", "").replace("−", "-").replace("∞", "inf")
    if text in {"<.01", ">.99"}:
        return SMALL / 2 if text[0] == "<" else 1 - SMALL / 2
    power = re.fullmatch(r"(.+) × 10([⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+)", text)
    if power:
        digits = power[2].translate(str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-"))
        return float(power[1]) * 10.0 ** int(digits)
    return float(text)


def numbers(texts: list[str]) -> np.ndarray:
    return np.array([number(text) for text in texts])


def slide(slider: Any, steps: int) -> None:
    """Moves a slider as the keyboard does: to the right for steps above 0."""
    for _ in range(abs(steps)):
        slider.press("ArrowRight" if steps > 0 else "ArrowLeft")


def grid(figure: Any, name: str) -> np.ndarray:
    """The cells of a map, (n_q, n_k); hidden ones are NaN."""
    rows = figure.get_by_role("grid", name=name).locator("tbody tr")
    labels = rows.evaluate_all(
        "(rows) => rows.map((row) => [...row.querySelectorAll('td')].map((cell) => cell.ariaLabel))"
    )
    cells = [[label.rsplit(": ", 1)[1] for label in row] for row in labels]
    return np.array([[np.nan if cell == "hidden" else number(cell) for cell in row] for row in cells])


def code(figure: Any) -> str:
    """The Python lines of a figure as it stands."""
    button = figure.get_by_role("button", name="Show me the code")
    if button.get_attribute("aria-expanded") == "false":
        button.click()
    return figure.locator("pre code").last.inner_text()


def printed(figure: Any) -> str:
    """What the Python lines of a figure print."""
    out = io.StringIO()
    # How the figure has NumPy print must not reach the tests after it.
    with contextlib.redirect_stdout(out), np.printoptions():
        exec(compile(code(figure), "<figure>", "exec"), {"__name__": "figure"})
    return out.getvalue()


def floats(text: str) -> np.ndarray:
    """The numbers in what Python printed."""
    return np.array([float(each) for each in re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", text)])


def bars(figure: Any, name: str) -> np.ndarray:
    """The numbers beside bars."""
    return numbers(figure.get_by_label(name).locator(".number").all_inner_texts())


def told(figure: Any, term: str) -> str:
    """The value that stands beside a term."""
    return str(figure.locator("dl > div", has_text=term).locator("dd").first.inner_text().strip())
