"""The built site in a browser: what may be asked of it, and what a figure shows, read back as numbers."""

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

SITE = Path(__file__).parents[1] / "src" / "qkv_lab" / "site"
SMALL = 0.005  # what the site writes as "<.01"


def missing(what: str) -> None:
    """Skips the test with its reason; where everything must run, fails it."""
    if os.environ.get("CI") == "true":
        pytest.fail(what)
    pytest.skip(what)


@contextlib.contextmanager
def watched(chromium: Any, site: str, **options: Any) -> Iterator[Any]:
    """A page of its own context. Asking for anything from outside, and any error in the console, fails the test."""
    context = chromium.new_context(base_url=site, reduced_motion="reduce", **options)
    origin = site.split("/start", maxsplit=1)[0]
    foreign: list[str] = []
    errors: list[str] = []

    def guard(route: Any) -> None:
        if route.request.url.startswith((origin, "data:", "blob:")):
            route.continue_()
        else:
            foreign.append(route.request.url)
            route.abort()

    context.route("**/*", guard)
    page = context.new_page()
    page.on("console", lambda message: errors.append(message.text) if message.type in {"error", "warning"} else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.set_default_timeout(20_000)
    page.goto(site)
    yield page
    context.close()
    assert not foreign, foreign
    assert not errors, errors


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
    rows = figure.get_by_role("grid", name=name).locator("tbody tr").all()
    cells = [[cell.get_attribute("aria-label").rsplit(": ", 1)[1] for cell in row.locator("td").all()] for row in rows]
    return np.array([[np.nan if cell == "hidden" else number(cell) for cell in row] for row in cells])


def code(figure: Any) -> str:
    """The Python lines of a figure as it stands."""
    button = figure.get_by_role("button", name="Show me the code")
    if button.get_attribute("aria-expanded") == "false":
        button.click()
    return figure.locator("pre code").last.inner_text()
