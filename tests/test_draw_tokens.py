"""Every token can be seen in every view, as it was written, whatever is in it; and it is never more than text."""

import io
import re
import unicodedata
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from PIL import Image

from qkv import draw
from qkv.draw import _labels

PAGES: dict[str, Callable[..., str]] = {
    "svg": draw.svg,
    "html": draw.html,
    "page": lambda *a, **k: draw.html(*a, page=True, **k),
}
MODES = ["truecolor", "256", "none"]
SVG = "{http://www.w3.org/2000/svg}"
OURS = re.compile(r"\x1b\[[0-9;]*m")

# B177: meta-pytorch/captum#1226 · B178: huggingface/tokenizers#1937
MARKUP = [
    "start", "<script>alert(1)</script>", "<!--", "-->", '"x', "<img src=x onerror=alert(1)>", "&lt;", "p<q>r", "<s>",
    "</s>", "<|endoftext|>", "</title>", "</svg>", "</script>", "]]>", "<![CDATA[", "' onload='alert(1)", "&#60;b&#62;",
    "<?xml?>", "{body}", "%s", "a < b && b > c",
]  # fmt: skip
# B187: no public thread; blank tokens and the marks of three kinds of tokenizer
BLANK = [" the", "\n", "\t", "", "##ing", "\u0120word", "\u2581le", " ", "  ", "\r", "\x00", "\u00a0", "\u3000", "a  b"]
# B185: matplotlib/matplotlib#15062
FOREIGN = [
    "五月", "👩‍🚀", "é", "e\u0301", "\u200b", "\ufffd", "한국어", "مرحبا", "नमस्ते", "🇩🇪", "❤\ufe0f", "👍🏽", "\u0301",
]  # fmt: skip
CODES = ["\x1b[31mred", "\x1b]0;title\x07", "\u202eevil", "\x9b2J", "\ud800", "\u2028", "\ufeff", "\x7f", "\ufffe"]


class Reader(HTMLParser):
    """What a browser would find: elements, names of attributes, comments, text."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: Counter[str] = Counter()
        self.attributes: Counter[str] = Counter()
        self.comments: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes.update(name for name, _ in attrs)

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    def handle_data(self, data: str) -> None:
        self.text += data


def uniform(n: int) -> np.ndarray:
    return np.full((n, n), 1 / n)


def ramp(n: int) -> np.ndarray:
    """A map of n different weights, so that no view can say "all the same"."""
    return np.arange(n * n, dtype=float).reshape(n, n) / (n * n)


def columns_of(line: str) -> int:
    """How far a terminal's cursor moves: two columns for a wide character, none for a mark."""
    wide = {"W": 2, "F": 2}
    kept = [char for char in OURS.sub("", line) if unicodedata.category(char) not in {"Mn", "Me"}]
    return sum(wide.get(unicodedata.east_asian_width(char), 1) for char in kept)


@pytest.mark.parametrize("view", PAGES)
def test_a_token_that_is_markup_is_shown_as_written(view: str) -> None:
    text = Reader(PAGES[view](ramp(len(MARKUP)), MARKUP, MARKUP)).text
    assert [token for token in MARKUP if token not in text] == []


@pytest.mark.parametrize("view", PAGES)
def test_no_token_adds_an_element_an_attribute_or_a_comment(view: str) -> None:
    harmless = [f"token{place}" for place in range(len(MARKUP))]
    found = Reader(PAGES[view](ramp(len(MARKUP)), MARKUP, MARKUP))
    wanted = Reader(PAGES[view](ramp(len(MARKUP)), harmless, harmless))
    assert found.tags == wanted.tags
    assert found.attributes == wanted.attributes
    assert found.comments == wanted.comments == []
    assert not found.tags.keys() & {"script", "img", "link", "iframe", "foreignobject"}
    assert not [name for name in found.attributes if name.startswith("on")]


@pytest.mark.parametrize("view", PAGES)
@pytest.mark.parametrize("evil", MARKUP)
def test_titles_axes_and_captions_are_text_too(view: str, evil: str) -> None:
    words = dict.fromkeys(["title", "subtitle", *(["caption"] if view != "svg" else [])], evil)
    found = Reader(PAGES[view](ramp(2), **words, axes=(evil, evil)))
    wanted = Reader(PAGES[view](ramp(2), **dict.fromkeys(words, "word"), axes=("word", "word")))
    assert (found.tags, found.attributes, found.comments) == (wanted.tags, wanted.attributes, [])
    assert found.text.count(evil) >= len(words) + 2


@pytest.mark.parametrize("view", PAGES)
def test_pages_load_nothing_and_run_nothing(view: str) -> None:
    page = PAGES[view](ramp(3), ["http://a", "//b", "url(c)"], title="t")
    assert not re.search(r"\s(src|href|srcset|action|data|style)=[\"'][^\"']*(//|url\()", page)
    assert "@import" not in page
    assert "<script" not in page


@pytest.mark.parametrize("tokens", [MARKUP, BLANK, FOREIGN, CODES], ids=["markup", "blank", "foreign", "codes"])
def test_svg_is_well_formed_whatever_the_tokens_hold(tokens: list[str]) -> None:
    root = ET.fromstring(draw.svg(ramp(len(tokens)), tokens, tokens, title=tokens[0]).encode())
    cells = [rect for rect in root.iter(SVG + "rect") if rect.find(SVG + "title") is not None]
    assert len(cells) == len(tokens) ** 2


@pytest.mark.parametrize("view", PAGES)
def test_pages_keep_the_scripts_of_the_world(view: str) -> None:
    text = Reader(PAGES[view](uniform(len(FOREIGN)), FOREIGN, FOREIGN)).text
    kept = ["五月", "👩‍🚀", "é", "e\u0301", "\ufffd", "한국어", "مرحبا", "नमस्ते", "🇩🇪", "❤\ufe0f", "👍🏽"]
    assert [token for token in kept if token not in text] == []
    assert "\u200b" not in text
    assert "\\u200b" in text


# B180: plotly/plotly.py#4826
LONG = [
    ["x" * 60 + str(i) for i in range(3)],
    [str(i) + "x" * 60 for i in range(3)],
    ["y" * 30 + c + "y" * 30 for c in "abc"],
]


@pytest.mark.parametrize("view", PAGES)
@pytest.mark.parametrize("tokens", LONG, ids=["end", "start", "middle"])
def test_shortened_labels_stay_different_and_whole_within_reach(view: str, tokens: list[str]) -> None:
    page = PAGES[view](np.full((3, 3), 1 / 3), tokens, tokens)
    found = Reader(page)
    assert found.tags["rect"] == 9
    assert [token for token in tokens if token not in found.text] == []
    shown = re.findall(r"</title>([^<]+)</text>", page)
    assert len(shown) == 6
    assert len(set(shown)) == 3
    assert max(map(len, shown)) <= 24


@pytest.mark.parametrize("tokens", LONG, ids=["end", "start", "middle"])
@pytest.mark.parametrize("width", [40, 80, 200])
def test_shortened_labels_stay_different_in_the_terminal(tokens: list[str], width: int) -> None:
    lines = draw.text(np.full((3, 3), 1 / 3), tokens, tokens, colour="none", width=width).split("\n")
    names = [line.split("│")[0] for line in lines if "│" in line]
    assert len(names) == 3
    assert len(set(names)) == 3


@pytest.mark.parametrize("tokens", LONG, ids=["end", "start", "middle"])
def test_shortened_labels_stay_different_in_a_picture(tokens: list[str]) -> None:
    same = [tokens[0]] * 3
    assert draw.png(uniform(3), tokens, tokens) != draw.png(uniform(3), same, same)
    texts = _labels.shorten(tokens, tokens, 28)
    assert len(set(texts)) == 3


@given(st.lists(st.text(max_size=30), max_size=20), st.integers(6, 24))
@settings(deadline=None)
def test_shortening_never_makes_two_labels_one_nor_one_label_two(raws: list[str], limit: int) -> None:
    labels = _labels.shown(raws)
    short = _labels.shorten([label.text for label in labels], raws, limit)
    assert all(_labels.columns(text) <= limit for text in short)
    assert len(set(short)) == len(set(raws)) == len(set(zip(short, raws, strict=True)))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("tokens", [MARKUP, BLANK, FOREIGN, CODES], ids=["markup", "blank", "foreign", "codes"])
def test_the_terminal_gets_no_character_that_acts(tokens: list[str], mode: Any) -> None:
    drawn = draw.text(ramp(len(tokens)), tokens, tokens, title=tokens[0], colour=mode, axes=(tokens[0], tokens[1]))
    drawn += draw.bars(np.ones(len(tokens)), tokens, title=tokens[0], colour=mode)
    plain = OURS.sub("", drawn)
    assert [char for char in plain if char != "\n" and not char.isprintable()] == []
    assert "\x1b" not in plain
    assert mode != "none" or plain == drawn
    drawn.encode()


@given(st.lists(st.text(max_size=12), min_size=1, max_size=12), st.sampled_from(MODES))
@settings(max_examples=60, deadline=None)
def test_any_text_is_a_label_in_every_view(tokens: list[str], mode: Any) -> None:
    n = len(tokens)
    plain = OURS.sub("", draw.text(ramp(n), tokens, tokens, colour=mode))
    assert all(char.isprintable() for char in plain.replace("\n", ""))
    root = ET.fromstring(draw.svg(ramp(n), tokens, tokens).encode())
    said = [text.find(SVG + "title") for text in root.iter(SVG + "text")]
    full = [title.text for title in said if title is not None]
    assert full == [f"{label.rich} [{place}]" for place, label in enumerate(_labels.shown(tokens))] * 2


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "tokens", [BLANK, FOREIGN, CODES, ["五", "a", "👩"]], ids=["blank", "foreign", "codes", "wide"]
)
def test_cells_stand_below_each_other_whatever_the_labels_hold(tokens: list[str], mode: Any) -> None:
    n = len(tokens)
    lines = draw.text(ramp(n), tokens, tokens, colour=mode, numbers=False).split("\n")
    body = [line for line in lines if ("│" in line if mode == "none" else "\x1b[48" in line)][:n]
    assert len(body) == n
    assert len({columns_of(line) for line in body}) == 1


@pytest.mark.parametrize("token", [*BLANK, *CODES, "\u200b", "\u0301"])
def test_a_blank_token_has_a_label_that_can_be_seen(token: str) -> None:
    for joined in (False, True):
        text = _labels.visible(token, joined=joined)
        assert text.strip()
        assert text.isprintable()
    first = draw.text(uniform(1), [token], colour="none").split("\n")[1]
    assert first.split("│")[0].strip()
    assert "<text" in draw.svg(uniform(1), [token])


def test_blank_tokens_have_seven_different_labels() -> None:
    tokens = BLANK[:7]
    assert [label.text for label in _labels.shown(tokens)] == ["·the", "\\n", "\\t", "∅", "##ing", "Ġword", "▁le"]


def test_a_token_that_looks_like_an_escape_is_told_from_the_escape() -> None:
    pairs = [("\n", "\\n"), ("", "∅"), (" a", "·a"), ("\x1b", "\\x1b"), ("\u200b", "\\u200b")]
    for pair in pairs:
        assert len({label.text for label in _labels.shown(pair)}) == 2
        assert len({label.rich for label in _labels.shown(pair)}) == 2


def test_half_a_character_is_a_token_too() -> None:
    labels = _labels.check("rows", [b"\xe4\xb8", "中".encode(), b"ok", 7, None], 5, (5, 5))
    assert labels == ["\\xe4\\xb8", "中", "ok", "7", "None"]


def test_a_character_the_font_lacks_is_written_as_its_escape_in_a_png() -> None:
    for token, written in [
        ("五月", r"\u4e94\u6708"),
        ("👩‍🚀", r"\U0001f469\u200d\U0001f680"),
        ("Ж", r"\u0416"),
        ("\n", r"\n"),
    ]:
        assert draw.png(uniform(1), [token]) == draw.png(uniform(1), [written])


def test_common_accents_and_token_marks_are_drawn_in_a_png() -> None:
    pictures = [draw.png(uniform(1), [token]) for token in ["é", "e", r"\xe9", "Ġ", "G", "▁", "_", "č", "c", "ñ", "n"]]
    assert len(set(pictures)) == len(pictures) - 1  # ▁ is drawn as _, no other two look alike
    assert draw.png(uniform(1), ["é"]) == draw.png(uniform(1), ["e\u0301"])


@pytest.mark.parametrize("tokens", [MARKUP, BLANK, FOREIGN, CODES], ids=["markup", "blank", "foreign", "codes"])
def test_a_png_takes_every_token_without_a_warning(tokens: list[str]) -> None:
    picture = Image.open(io.BytesIO(draw.png(uniform(len(tokens)), tokens, tokens, title=tokens[-1])))
    assert picture.format == "PNG"
    picture.load()
