"""Every page of the site, as anyone may meet it: any theme, any width, by keyboard, with nothing from outside."""

import gzip
import re
from pathlib import Path
from typing import Any

import pytest
from browsing import SITE, watched

AXE = Path(__file__).parents[1] / "web" / "node_modules" / "axe-core" / "axe.min.js"
PAGES = sorted(path.name for path in SITE.glob("*.html")) or ["index.html"]
WIDTHS = {"light": (360, 1920), "dark": (1280, 390)}
OVERFLOW = """() => [document.documentElement.scrollWidth - innerWidth, [...document.querySelectorAll('main *')]
    .filter((each) => each.getBoundingClientRect().right > innerWidth + 1)
    .filter((each) => !each.closest('.scroll, .frame, pre, .katex-display, .unseen, svg'))
    .slice(0, 3).map((each) => each.outerHTML.slice(0, 120))]"""
USABLE = """() => [...document.querySelectorAll('a[href], button, input, select, textarea, [tabindex="0"]')]
    .filter((each) => each.tabIndex >= 0 && !each.disabled && each.type !== 'radio')
    .filter((each) => each.checkVisibility({visibilityProperty: true}))
    .map((each, at) => { each.dataset.wanted = at; return each.outerHTML.slice(0, 100); })"""


def settle(page: Any, name: str) -> None:
    """Opens a page and waits until it shows its heading and everything that it asked for has come."""
    page.goto(f"/{name}")
    page.get_by_role("heading", level=1).wait_for()
    page.wait_for_load_state("networkidle")
    page.evaluate("document.fonts.ready")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_can_be_used_by_everybody(chromium: Any, site: str, name: str, theme: str) -> None:
    with watched(chromium, site, color_scheme=theme, viewport={"width": WIDTHS[theme][0], "height": 900}) as page:
        settle(page, name)
        page.evaluate(AXE.read_text(encoding="utf-8"))
        for width in WIDTHS[theme]:
            page.set_viewport_size({"width": width, "height": 900})
            over, where = page.evaluate(OVERFLOW)
            assert over <= 0, f"{width} px: {where}"
            found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
            told = [(each["id"], [node["html"] for node in each["nodes"]][:3]) for each in found["violations"]]
            assert not told, f"{width} px: {told}"


@pytest.mark.parametrize("name", [name for name in PAGES if not name.startswith("card-")])
def test_the_keyboard_reaches_all_that_can_be_used(page: Any, name: str) -> None:
    settle(page, name)
    wanted = page.evaluate(USABLE)
    reached = set()
    for _ in range(2 * len(wanted) + 20):
        # The Tab key indents in an editor; Escape before it leaves.
        if page.evaluate("document.activeElement?.shadowRoot != null"):
            page.keyboard.press("Escape")
        page.keyboard.press("Tab")
        at = page.evaluate("document.activeElement?.dataset?.wanted ?? null")
        if at is not None:
            reached.add(int(at))
        elif reached and page.evaluate("document.activeElement === document.body"):
            break
    missed = [html for at, html in enumerate(wanted) if at not in reached]
    assert not missed, missed


def test_every_link_leads_to_a_page_of_the_site(page: Any) -> None:
    for name in PAGES:
        settle(page, name)
        for address in page.evaluate(
            "[...document.querySelectorAll('a[href]')].map((each) => each.getAttribute('href'))"
        ):
            target = re.sub(r"[?#].*", "", address)
            assert not target or (SITE / target.removeprefix("./")).exists(), f"{name}: {address}"


def test_essay_lessons_and_cards_lead_to_each_other(page: Any) -> None:
    page.goto("card-temperature.html")
    more = page.get_by_role("navigation", name="More on this")
    more.get_by_role("link", name="One token").click()
    more.get_by_role("link", name="Softmax, masks and empty rows").click()
    more.get_by_role("link", name="Three roles").click()
    more.get_by_role("link", name="Causal attention").click()
    page.get_by_role("heading", name="Causal attention", level=1).wait_for()


def test_the_first_page_is_small() -> None:
    """150 kB gzipped without fonts, for what index.html names and what that loads at once."""
    html = (SITE / "index.html").read_text(encoding="utf-8")
    names = re.findall(r'(?:src|href)="\./(assets/[^"]+)"', html)
    home = [f"assets/{path.name}" for path in (SITE / "assets").glob("Home-*")]
    size = sum(len(gzip.compress((SITE / name).read_bytes())) for name in {*names, *home})
    assert len(gzip.compress(html.encode())) + size <= 150_000


def test_a_theme_that_was_chosen_stays(page: Any) -> None:
    button = page.get_by_role("button", name="Theme: auto")
    button.click()
    page.reload()
    assert page.locator("html").get_attribute("data-theme") == "light"
    page.get_by_role("button", name="Theme: light").click()
    assert page.locator("html").get_attribute("data-theme") == "dark"
