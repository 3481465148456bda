"""Every page of the site, as anyone may meet it: any theme, any width, by keyboard, with nothing from outside."""

import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import DESKTOP, SITE, Visitor

AXE = Path(__file__).parents[1] / "web" / "node_modules" / "axe-core" / "axe.min.js"
PAGES = sorted(path.name for path in SITE.glob("*.html")) or ["index.html"]
LOOKS = {360: "light", 390: None, 1280: None, 1920: "dark"}  # where axe looks, most of the work, and in which theme
OVERFLOW = """() => [document.documentElement.scrollWidth - innerWidth, [...document.querySelectorAll('main *')]
    .filter((each) => each.getBoundingClientRect().right > innerWidth + 1)
    .filter((each) => !each.closest('.scroll, .frame, pre, .katex-display, .unseen, svg'))
    .slice(0, 3).map((each) => each.outerHTML.slice(0, 120))]"""
USABLE = """() => [...document.querySelectorAll('a[href], button, input, select, textarea, [tabindex="0"]')]
    .filter((each) => each.tabIndex >= 0 && !each.disabled && each.type !== 'radio')
    .filter((each) => each.checkVisibility({visibilityProperty: true}))
    .map((each, at) => { each.dataset.wanted = at; return each.outerHTML.slice(0, 100); })"""
FOCUSED = """() => {
    const at = document.activeElement;
    if (at.dataset.wanted) return Number(at.dataset.wanted);
    return at === document.body ? "body" : at.shadowRoot ? "editor" : "";
}"""


@pytest.fixture(scope="module", params=PAGES)
def opened(request: pytest.FixtureRequest, visitor: Visitor) -> Iterator[Any]:
    """Each page in turn, loaded once for all tests of it, with its heading and all that it asked for."""
    visitor.page.goto(f"/{request.param}")
    visitor.page.get_by_role("heading", level=1).wait_for()
    visitor.page.wait_for_load_state("networkidle")
    visitor.page.evaluate("document.fonts.ready")
    yield visitor.page
    visitor.forget()
    assert not (wrong := visitor.complaints()), wrong


def test_the_keyboard_reaches_all_that_can_be_used(opened: Any) -> None:
    wanted = opened.evaluate(USABLE)
    reached, at = set(), None
    for _ in range(2 * len(wanted) + 20):
        # The Tab key indents in an editor; Escape before it leaves.
        if at == "editor":
            opened.keyboard.press("Escape")
        opened.keyboard.press("Tab")
        at = opened.evaluate(FOCUSED)
        if isinstance(at, int):
            reached.add(at)
        elif reached and at == "body":
            break
    missed = [html for at, html in enumerate(wanted) if at not in reached]
    assert not missed, missed


def test_every_link_leads_to_a_page_of_the_site(opened: Any) -> None:
    for address in opened.evaluate(
        "[...document.querySelectorAll('a[href]')].map((each) => each.getAttribute('href'))"
    ):
        target = re.sub(r"[?#].*", "", address)
        assert not target or (SITE / target.removeprefix("./")).exists(), address


def test_a_page_can_be_used_by_everybody(opened: Any) -> None:
    opened.evaluate(AXE.read_text(encoding="utf-8"))
    for width, theme in LOOKS.items():
        opened.set_viewport_size({"width": width, "height": DESKTOP["height"]})
        over, where = opened.evaluate(OVERFLOW)
        assert over <= 0, f"{width} px: {where}"
        if theme:
            opened.emulate_media(color_scheme=theme)
            found = opened.evaluate("axe.run(document, {resultTypes: ['violations']})")
            told = [(each["id"], [node["html"] for node in each["nodes"]][:3]) for each in found["violations"]]
            assert not told, f"{theme}, {width} px: {told}"


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
    page.goto("/")
    button = page.get_by_role("button", name="Theme: auto")
    button.click()
    page.reload()
    assert page.locator("html").get_attribute("data-theme") == "light"
    page.get_by_role("button", name="Theme: light").click()
    assert page.locator("html").get_attribute("data-theme") == "dark"
