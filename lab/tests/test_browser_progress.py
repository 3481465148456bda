"""Progress in the lessons: kept, taken along, brought in, deleted; and a whole lesson by keyboard."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import watched
from learning import BOOT, PAGE, SOLUTION, kept, opened, says, write


@pytest.fixture
def lesson(page: Any) -> Any:
    return opened(page)


@pytest.fixture
def with_python(chromium: Any, site: str) -> Iterator[Any]:
    with watched(chromium, site) as page:
        yield page


# ---- Progress ------------------------------------------------------------------------------------------------


def answer(page: Any) -> None:
    for label, text in (("q =", "3 2"), ("k =", "2 1"), ("v =", "2 4"), ("letter", "V")):
        page.get_by_label(label).fill(text)
        page.get_by_label(label).press("Enter")
    page.get_by_role("button", name="The values", exact=False).first.click()
    write(page, "x = 'my own code'")
    page.wait_for_function("() => localStorage.getItem('qkv.progress')?.includes('my own code')")


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
    lesson.wait_for_function("() => localStorage.getItem('qkv.progress')?.includes('draft') === false")


def test_progress_goes_to_another_browser_and_loses_nothing_there(
    lesson: Any, chromium: Any, site: str, tmp_path: Path
) -> None:
    answer(lesson)
    lesson.goto("/learn.html")
    with lesson.expect_download() as download:
        lesson.get_by_role("button", name="Save to a file").click()
    file = tmp_path / download.value.suggested_filename
    download.value.save_as(file)
    with watched(chromium, site, python=False) as other:
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


def test_a_lesson_is_done_without_a_mouse(with_python: Any) -> None:
    lesson = opened(with_python)
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
