"""Tokens as they are written: what a tokenizer stores in a disguise, such as "Ġcat" or "▁cat", undone."""

from collections.abc import Sequence

# Byte-level tokenizers write each byte as a character: itself where it can be seen, else one from 256 on (GPT-2, 2019).
_SEEN = [*range(33, 127), *range(161, 173), *range(174, 256)]
_UNSEEN = [byte for byte in range(256) if byte not in _SEEN]
_BYTES = {chr(byte): byte for byte in _SEEN} | {chr(256 + at): byte for at, byte in enumerate(_UNSEEN)}


def written(tokens: Sequence[str], by_bytes: bool) -> list[str]:
    r"""Each token as text: a leading space is a space, a part of a character its bytes, `\xc3`.

    by_bytes: whether the tokenizer works on bytes, as those do that have a token "Ġ".
    """
    return [_from_bytes(token) if by_bytes else token.replace("▁", " ") for token in tokens]


def _from_bytes(token: str) -> str:
    if not set(token) <= _BYTES.keys():
        return token  # it was added as it is, outside the scheme
    return bytes(_BYTES[char] for char in token).decode("utf-8", "backslashreplace")
