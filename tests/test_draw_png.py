"""The picture: a valid file, labels that are there and differ, nothing outside the paper, everything said in it."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from qkv import draw
from qkv.draw import colour
from qkv.draw._glyphs import Pen
from qkv.draw._sheet import Sheet

WORDS = "[CLS] the cat sat on the mat because it was tired . [SEP]".split()
WEIGHTS = np.random.default_rng(7).dirichlet(np.full(13, 0.3), size=13)
SIZES = [(1, 1), (1, 13), (13, 1), (17, 17), (40, 30), (128, 128), (129, 129), (3, 200)]


def pixels(file: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(file)).convert("RGB")).astype(int)


def boxes(file: bytes) -> tuple[int, int]:
    """How many rows and columns of pixels are in a colour of the scale."""
    power = [65536, 256, 1]
    hit = np.isin(pixels(file) @ power, colour.rgb(np.linspace(0, 1, 256)) @ power)
    return int(hit.any(1).sum()), int(hit.any(0).sum())


def test_a_png_is_a_sound_file_without_a_date() -> None:
    file = draw.png(WEIGHTS, WORDS, WORDS, title="t")
    assert file.startswith(b"\x89PNG\r\n\x1a\n")
    place, kinds = 8, []
    while place < len(file):
        (size,), kind = struct.unpack(">I", file[place : place + 4]), file[place + 4 : place + 8]
        body = file[place + 4 : place + 8 + size]
        assert struct.unpack(">I", file[place + 8 + size : place + 12 + size])[0] == zlib.crc32(body)
        kinds.append(kind)
        place += 12 + size
    assert set(kinds) == {b"IHDR", b"IDAT", b"IEND"}


@pytest.mark.parametrize("shape", SIZES)
def test_a_margin_of_white_lies_around_everything(shape: tuple[int, int]) -> None:
    weights = np.random.default_rng(0).random(shape)
    rows, columns = ([f"token number {place}" for place in range(size)] for size in shape)
    for labels in ((rows, columns), (None, None)):
        image = pixels(draw.png(weights, *labels, title="Title " * 20, subtitle="words " * 30))
        image[20:-20, 20:-20] = 255
        assert (image == 255).all()


def test_every_label_is_written() -> None:
    whole = draw.png(WEIGHTS, WORDS, WORDS)
    for place in range(len(WORDS)):
        other = [*WORDS]
        other[place] += "!"
        assert draw.png(WEIGHTS, other, WORDS) != whole
        assert draw.png(WEIGHTS, WORDS, other) != whole


def test_128_labels_are_written_and_past_that_their_numbers() -> None:
    for size, written in [(128, True), (129, False)]:
        words = [f"w{place}" for place in range(size)]
        other = [*words[:-1], "changed"]
        assert (draw.png(np.eye(size), words, words) != draw.png(np.eye(size), other, other)) is written


@pytest.mark.parametrize("word", ["title", "subtitle"])
def test_what_is_said_is_in_the_picture(word: str) -> None:
    assert draw.png(WEIGHTS, **{word: "one"}) != draw.png(WEIGHTS, **{word: "two"})


def test_axes_and_pooling_are_said_in_the_picture() -> None:
    assert draw.png(WEIGHTS, axes=("a", "b")) != draw.png(WEIGHTS, axes=("b", "a"))
    # Both are drawn with 1024 rows of one value; they differ in what is said about them, and in their ticks.
    flat = draw.png(np.full((2048, 4), 0.5))
    assert pixels(flat).shape[0] > pixels(draw.png(np.full((1024, 4), 0.5))).shape[0]


def test_cells_are_the_same_size_whatever_they_hold() -> None:
    colours = pixels(draw.png(np.array([[0.0, 1.0], [1.0, 0.0]]), numbers=False))
    areas = [(colours == colour.rgb(place)).all(-1) for place in (0.0, 1.0)]
    # The colour bar has one row of each end, 18 pixels wide; a cell has a pixel less than its 40 for the line.
    assert [int(area.sum()) for area in areas] == [2 * 39 * 39 + 18] * 2


def test_a_ribbon_keeps_cells_that_can_be_seen() -> None:
    rows, columns = boxes(draw.png(np.random.default_rng(0).random((1, 128)), numbers=False))
    assert rows >= 40
    assert columns >= 128 * 14


@pytest.mark.parametrize("size", [11, 16, 20, 26])
def test_writing_stays_inside_its_mask(size: int) -> None:
    pen = Pen(size)
    for text in ["Ǧgjpqy|", "ÅÉÑ", "[CLS]", "çạ", "▁le", "∅", "W" * 30]:
        spelled = pen.spell(text)
        mask = np.asarray(pen.mask(spelled))
        assert mask.shape == (pen.height, pen.width(spelled) + 2)
        assert mask.any()
        assert not mask[0].any()
        assert not mask[-1].any()


def test_accents_lie_where_they_belong() -> None:
    pen = Pen(20)
    plain, acute, cedilla = (np.asarray(pen.mask(text)).astype(int) for text in ("c", "ć", "ç"))
    assert pen.width("c") == pen.width("ć") == pen.width("ç")
    above, below = acute - plain, cedilla - plain
    top = np.nonzero(plain.any(1))[0][0]
    assert above[:top].any()
    assert not above[top:].any()
    assert below[pen.rise :].any()
    assert not below[: pen.rise].any()


def test_a_sheet_grows_to_hold_what_lies_on_it() -> None:
    sheet = Sheet(5)
    sheet.paint(-30, 40, np.zeros((10, 20, 3), np.uint8))
    sheet.paint(50, -60, np.zeros((7, 9, 3), np.uint8))
    image = pixels(sheet.save())
    assert image.shape == (110 + 10, 89 + 10, 3)
    assert (image[105:115, 5:25] == 0).all()
    assert (image[5:12, 85:94] == 0).all()
    assert (image == 0).all(-1).sum() == 200 + 63
    assert Image.open(io.BytesIO(Sheet(5).save())).size == (11, 11)


def test_writing_turns_about_its_start() -> None:
    for turn in ("write", "write_up", "write_slanted"):
        sheet = Sheet(0)
        sheet.paint(0, 0, np.full((1, 1, 3), 7, np.uint8))
        getattr(sheet, turn)(0, 0, "iiiiiiiiiiiiiiiiiiiiiii", 20)
        image = pixels(sheet.save())
        dot = np.argwhere((image == 7).all(-1))[0]
        height, width = image.shape[:2]
        left, below = dot[1] / width, 1 - dot[0] / height
        assert {"write": left < 0.1, "write_up": below < 0.1, "write_slanted": left < 0.15 and below < 0.15}[turn]
