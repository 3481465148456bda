"""The cards in a browser: their depths, their question, what is kept of it, and the test drawn from all of them."""

import contextlib
import re
from typing import Any

# The page that every test asks for says what is missing, and fails where nothing may be.
with contextlib.suppress(ImportError):
    from playwright.sync_api import expect


def options(page: Any) -> Any:
    return page.locator(".choice").get_by_role("listitem").get_by_role("button")


def pick(page: Any, words: str) -> None:
    options(page).filter(has_text=words).click()


def test_the_arrow_keys_change_the_depth_and_the_address(page: Any) -> None:
    page.goto("card-softmax.html")
    panel = page.get_by_role("tabpanel")
    expect(panel).to_contain_text("It runs along each row")
    page.get_by_role("tab", name="In short").press("ArrowLeft")
    expect(page.get_by_role("tab", name="Deep dive")).to_be_focused()
    expect(panel).to_contain_text("11.107")
    assert page.url.endswith("card-softmax.html?depth=deep")
    page.keyboard.press("Home")
    expect(panel).not_to_contain_text("11.107")
    assert page.url.endswith("card-softmax.html")


def test_an_address_opens_its_depth(page: Any) -> None:
    page.goto("card-query-key-value.html?depth=more")
    expect(page.get_by_role("tab", name="In depth")).to_have_attribute("aria-selected", "true")
    expect(page.get_by_role("tabpanel")).to_contain_text("Picture a library")


def test_a_wrong_pick_explains_itself_and_the_others_on_demand(page: Any) -> None:
    page.goto("card-query-key-value.html")
    pick(page, "compared with the query")
    told = page.locator(".choice").get_by_role("status")
    expect(told).to_contain_text("Not right. That is the key's work")
    expect(page.get_by_text("Queries and keys only settle the weights")).to_have_count(0)
    page.get_by_role("button", name="Explain the other options").click()
    expect(page.locator(".choice .why")).to_have_count(4)
    expect(page.locator(".choice")).to_contain_text("Right. Queries and keys only settle the weights")


def test_an_answer_is_kept_told_by_the_index_and_forgotten_on_request(page: Any) -> None:
    page.goto("card-query-key-value.html")
    pick(page, "what the token hands over")
    page.reload()
    expect(page.locator(".choice").get_by_role("status")).to_contain_text("Right.")
    page.get_by_role("main").get_by_role("link", name="All cards").click()
    expect(page.get_by_role("status")).to_contain_text("1 of 19 answered, 1 right")
    first = page.get_by_role("listitem").filter(has_text="Query, Key and Value")
    expect(first).to_contain_text("✓ Answered right")
    page.get_by_role("button", name="Forget my answers").click()
    page.get_by_role("button", name="Yes").click()
    expect(page.get_by_role("status")).to_contain_text("No question answered yet")
    expect(first).not_to_contain_text("Answered")


def test_a_question_can_be_asked_again(page: Any) -> None:
    page.goto("card-mask.html")
    pick(page, "the same")
    page.get_by_role("button", name="Ask me again").click()
    expect(page.locator(".choice .why")).to_have_count(0)
    pick(page, "Rows no longer sum to 1")
    expect(page.locator(".choice").get_by_role("status")).to_contain_text("Right.")


def answer_by_keyboard(page: Any) -> bool:
    """Picks the first option with the keyboard alone, goes on, and says whether it was right."""
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_be_focused()
    place = heading.inner_text()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    right = page.locator(".choice").get_by_role("status").inner_text().startswith("Right.")
    page.get_by_role("button", name=re.compile("Next question|See the score")).press("Enter")
    expect(heading).not_to_have_text(place)
    return bool(right)


def test_a_test_is_taken_by_keyboard_scored_and_its_missed_questions_come_again(page: Any) -> None:
    page.goto("test.html")
    page.get_by_role("radio", name="5").press("Space")
    page.get_by_role("button", name="Begin").press("Enter")
    right = [answer_by_keyboard(page) for _ in range(5)]
    score = page.get_by_role("heading", level=1)
    expect(score).to_have_text(f"{sum(right)} of 5 right")
    expect(page.locator("summary").filter(has_text="✗ Missed")).to_have_count(right.count(False))
    page.locator("summary").first.click()
    expect(page.locator("details[open] .why")).to_have_count(page.locator("details[open] .choice li").count())
    if not all(right):
        page.get_by_role("button", name=re.compile("missed")).click()
        expect(score).to_have_text(f"Question 1 of {right.count(False)}")
    page.goto("cards.html")
    expect(page.get_by_role("status")).to_contain_text(f"Last test: {sum(right)} of 5.")


def test_two_tests_are_not_alike(page: Any) -> None:
    def drawn() -> str:
        page.goto("test.html")
        page.get_by_role("radio", name="All 19").check()
        page.get_by_role("button", name="Begin").click()
        return str(page.locator(".choice").inner_text())

    # Nineteen questions and up to 24 orders of options: five draws that begin alike would be no draws.
    assert len({drawn() for _ in range(5)}) > 1
