"""Labels made fit to show: nothing invisible in them, their widths known, long ones shortened and still different."""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from qkv.errors import DTypeError, ShapeError

__all__ = ["EMPTY", "Label", "check", "clusters", "columns", "line", "of_block", "shorten", "shown", "visible"]

EMPTY = "∅"
SPACE = "·"
_NAMED = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
_JOINERS = "\u200c\u200d"
_VARIATION = "\ufe0e\ufe0f"


@dataclass(frozen=True)
class Label:
    """One position of an axis: `text` as a terminal shows it, `rich` as a page shows it (joined emoji stay joined).

    `raw` is what the caller gave: two labels with one `raw` are the same label. `counted`: it is only the number of
    the position, or of the first and last position of a block.
    """

    text: str
    rich: str
    raw: str
    counted: bool = False


def check(name: str, labels: Iterable[Any] | None, size: int, shape: Sequence[int]) -> list[str] | None:
    """The labels of an axis as plain str, one per position; None stays None. `shape` is that of the array."""
    if labels is None:
        return None
    if isinstance(labels, str | bytes) or not isinstance(labels, Iterable):
        raise DTypeError(
            f"{name} must be a list of labels, one per position, not one {type(labels).__name__}: "
            f"pass {name}=text.split() or the tokenizer's list of tokens."
        )
    found = [_plain(label) for label in labels]
    if len(found) != size:
        array, colons = ("values", "") if name == "labels" else ("weights", ":, " if name == "columns" else "")
        way = f"{name}[:{size}]" if len(found) > size else f"{array}[{colons}:{len(found)}]"
        raise ShapeError(
            f"{name} do not fit: {_count(size, 'position')} and {_count(len(found), 'token')} "
            f"({array}.shape = {tuple(shape)}). Pass one label per position, or draw {way}."
        )
    return found


def _plain(label: Any) -> str:
    # Byte-level tokenizers give bytes, and half a character is a token there.
    return label.decode("utf-8", "backslashreplace") if isinstance(label, bytes) else str(label)


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def shown(labels: Sequence[str]) -> list[Label]:
    """Visible forms, one per label. Labels that differ look different: where two would not, both become ASCII."""
    texts = _apart(labels, [visible(label) for label in labels])
    riches = _apart(labels, [visible(label, joined=True) for label in labels])
    return [Label(text, rich, raw) for text, rich, raw in zip(texts, riches, labels, strict=True)]


def _apart(raws: Sequence[str], texts: Sequence[str]) -> list[str]:
    origin: dict[str, set[str]] = {}
    for raw, text in zip(raws, texts, strict=True):
        origin.setdefault(text, set()).add(raw)
    return [ascii(raw) if len(origin[text]) > 1 else text for raw, text in zip(raws, texts, strict=True)]


def visible(text: str, *, joined: bool = False) -> str:
    r"""The text with nothing hidden in it: "" is ∅, outer and doubled spaces are ·, a newline is \n, and so on.

    Characters that move, colour, reverse or vanish (controls, escapes, bidi marks, zero-width, unassigned) become
    Python escapes. `joined=True` keeps the joiners and variation selectors inside emoji and scripts that need them.
    """
    if not text:
        return EMPTY
    if text.isascii() and text.isprintable() and " " not in text:
        return text
    parts = []
    for place, char in enumerate(text):
        before, after = text[place - 1 : place], text[place + 1 : place + 2]
        if char == " ":
            parts.append(" " if before.strip(" ") and after.strip(" ") else SPACE)
        elif char in _JOINERS and joined and _carries(before) and _carries(after):
            parts.append(char)
        elif char in _VARIATION or _is_modifier(char):
            parts.append(char if joined and _carries(before) else _escape(char))
        elif unicodedata.combining(char) or unicodedata.category(char) in {"Mn", "Me"}:
            # A mark with nothing to sit on would sit on the frame of the picture.
            parts.append(char if before.isprintable() and before.strip() else f"◌{char}")
        else:
            parts.append(char if char.isprintable() else _escape(char))
    return "".join(parts)


def _carries(char: str) -> bool:
    """Whether a joiner or selector beside this character can mean something: past ASCII, or a keycap's base."""
    return bool(char) and (ord(char) > 127 or char in "0123456789#*") and unicodedata.category(char) != "Cs"


def _is_modifier(char: str) -> bool:
    """Skin tones: terminals disagree on their width."""
    return "\U0001f3fb" <= char <= "\U0001f3ff"


def _escape(char: str) -> str:
    code = ord(char)
    if char in _NAMED:
        return _NAMED[char]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def clusters(text: str) -> list[str]:
    """The characters that a reader sees: each base with the marks and joiners that belong to it."""
    found: list[str] = []
    for char in text:
        if found and (_is_tied(char) or found[-1][-1] in _JOINERS):
            found[-1] += char
        else:
            found.append(char)
    return found


def _is_tied(char: str) -> bool:
    """Marks, joiners, skin tones, and the vowels and finals of a Hangul syllable written in parts."""
    return (
        unicodedata.category(char) in {"Mn", "Me"}
        or char in _JOINERS
        or _is_modifier(char)
        or "\u1160" <= char <= "\u11ff"
    )


def columns(text: str) -> int:
    """Terminal columns of visible text: 2 for each wide character (Unicode Standard Annex 11), 0 for each mark."""
    return len(text) if text.isascii() else sum(_columns(cluster) for cluster in clusters(text))


def _columns(cluster: str) -> int:
    if unicodedata.category(cluster[0]) in {"Mn", "Me"}:
        return 0
    return 2 if unicodedata.east_asian_width(cluster[0]) in "WF" or "\ufe0f" in cluster else 1


def shorten(texts: Sequence[str], raws: Sequence[str], limit: int) -> list[str]:
    """The texts cut to at most `limit` columns (6 or more), start and end kept. Labels that differ stay different."""
    cut = [_middle(text, limit) for text in texts]
    owner: dict[str, str] = {}
    for text, raw in zip(cut, raws, strict=True):
        owner.setdefault(text, raw)
    number: dict[str, str] = {}
    for place, raw in enumerate(raws):
        if owner[cut[place]] == raw:
            continue
        if raw not in number:
            number[raw] = _numbered(texts[place], limit, owner)
            owner[number[raw]] = raw
        cut[place] = number[raw]
    return cut


def _middle(text: str, limit: int) -> str:
    # Only the ends of a giant token are looked at; nothing legible has more marks than this.
    most = 16 * limit
    if len(text) <= most and columns(text) <= limit:
        return text
    tail = (limit - 1) // 3
    start = _start(clusters(text[:most]), limit - 1 - tail)
    return f"{start}…{_start(clusters(text[-most:])[::-1], tail, back=True)}"


def _start(parts: Sequence[str], limit: int, *, back: bool = False) -> str:
    kept, used = [], 0
    for part in parts:
        used += _columns(part)
        if used > limit:
            break
        kept.append(part)
    return "".join(reversed(kept) if back else kept)


def _numbered(text: str, limit: int, taken: dict[str, str]) -> str:
    parts, number = clusters(text[: 16 * limit]), 2
    while True:
        end = f"…{number}"
        name = _start(parts, limit - len(end)) + end
        if name not in taken:
            return name
        number += 1


def wrap(text: str | None, width: int, *, joined: bool = False) -> list[str]:
    """A title as visible lines of at most `width` columns, broken between words; None has no line."""
    if text is None:
        return []
    lines = []
    for paragraph in str(text).split("\n"):
        line = ""
        for word in paragraph.split():
            for piece in _pieces(visible(word, joined=joined), width):
                longer = f"{line} {piece}" if line else piece
                if line and columns(longer) > width:
                    lines.append(line)
                    longer = piece
                line = longer
        lines.append(line)
    return lines


def line(text: str, *, joined: bool = False) -> str:
    """A name or title as one visible line."""
    return " ".join(visible(word, joined=joined) for word in str(text).split())


def _pieces(word: str, width: int) -> list[str]:
    """A word that is longer than a line, cut into lines."""
    pieces, used = [""], 0
    for part in clusters(word):
        size = _columns(part)
        if pieces[-1] and used + size > width:
            pieces.append("")
            used = 0
        pieces[-1] += part
        used += size
    return pieces


def of_block(labels: Sequence[str] | None, start: int, stop: int) -> Label:
    """The label of positions start … stop − 1 in one cell: their numbers, and on a page the first and last token."""
    numbers = str(start) if stop - start == 1 else f"{start}–{stop - 1}"
    if labels is None:
        return Label(numbers, numbers, numbers, counted=True)
    first, last = (shorten([visible(labels[place], joined=True)], [""], 24)[0] for place in (start, stop - 1))
    return Label(numbers, f"{numbers} ({first} … {last})", numbers, counted=True)
