"""An attention layer of eight tokens, small enough to be read number by number.

    the cat sat on the mat because it

Nothing is trained and nothing is drawn at random: every number below is there for a reason that has a name.

A token is a sum of named features, one channel each, worth 0, 1 or −1 (`FEATURES`, 16 channels). It says which
word it is, what kind of word, and which phrase it belongs to.

A channel of the queries and keys is a question (`QUESTIONS`, 16 again): tokens with one feature ask it, tokens with
another answer it. W_Q holds how loudly is asked, W_K how loudly is answered, so both have one number a column:

    "it" is a pronoun and asks for an animate noun    W_Q[pronoun, which animate] = 3
    "cat" is animate and answers that                  W_K[animate, which animate] = 2
    their product in this channel                      3 · 2 = 6

Four heads are four slices of four questions each (`SLICES`):

    same word     each word finds its copies: "the" finds "the"
    reference     the pronoun finds its noun, "it" finds "cat"; an article finds the nouns
    predicates    "sat" finds who sat, "on" finds on what, "because" finds what happened and to whom
    same phrase   [the cat] [sat] [on the mat] [because it]

A token that asks nothing in a slice looks everywhere alike. Asking and answering are two matrices, so "it" looks for
"cat" while "cat" does not look back. Eight heads cut each slice in half, two heads join two, and one head has all 16
questions at once: its q·k is the sum of the slices' q·k, and its one softmax has to settle between them.

A key delivers its word, the first four features, into every slice (W_V), and W_O leaves each head's finding in its
own place: after four heads the row of "it" reads "cat" in the slice `reference`.

The sentence and the idea that heads divide such questions: Vaswani et al. 2017, section 3.2.2 and figures 3 to 5.
"""

from typing import NamedTuple

import numpy as np

from qkv._map import AttentionMap
from qkv._typing import Array
from qkv.errors import ArgumentError
from qkv.heads import MultiHead

__all__ = ["FEATURES", "HEADS", "QUESTIONS", "SLICES", "TOKENS", "Question", "layer", "map", "names", "x"]

TOKENS = ("the", "cat", "sat", "on", "the", "mat", "because", "it")
HEADS = (1, 2, 4, 8)
SLICES = ("same word", "reference", "predicates", "same phrase")

# Two words share a channel where there is a minus: +1 is the first, −1 the second, so that 4 channels tell 7 words.
_WORDS = ("the − because", "cat − mat", "sat − on", "word it")
_KINDS = ("noun", "animate", "place", "article", "pronoun", "verb", "preposition", "conjunction")
_PHRASES = ("[the cat]", "[sat]", "[on the mat]", "[because it]")
FEATURES = (*_WORDS, *_KINDS, *_PHRASES)


class Question(NamedTuple):
    """A channel of q and k: tokens with the feature `asks` ask it, those with `answers` answer it.

    ask, answer: how loudly, the number in W_Q and the one in W_K; the product joins q·k for each unit of both.
    """

    name: str
    asks: str
    ask: int
    answers: str
    answer: int


QUESTIONS = (
    *(Question(word, word, 2, word, 2) for word in _WORDS),
    Question("which noun", "pronoun", 2, "noun", 2),
    Question("which animate", "pronoun", 3, "animate", 2),
    Question("not a pronoun", "pronoun", -2, "pronoun", 2),
    Question("its noun", "article", 3, "noun", 2),
    Question("who", "verb", 3, "animate", 2),
    Question("on what", "preposition", 3, "place", 2),
    Question("what happened", "conjunction", 3, "verb", 2),
    Question("to whom", "conjunction", 3, "pronoun", 2),
    *(Question(phrase, phrase, 2, phrase, 2) for phrase in _PHRASES),
)

_TOKEN_FEATURES: tuple[dict[str, int], ...] = (
    {"the − because": 1, "article": 1, "[the cat]": 1},
    {"cat − mat": 1, "noun": 1, "animate": 1, "[the cat]": 1},
    {"sat − on": 1, "verb": 1, "[sat]": 1},
    {"sat − on": -1, "preposition": 1, "[on the mat]": 1},
    {"the − because": 1, "article": 1, "[on the mat]": 1},
    {"cat − mat": -1, "noun": 1, "place": 1, "[on the mat]": 1},
    {"the − because": -1, "conjunction": 1, "[because it]": 1},
    {"word it": 1, "pronoun": 1, "[because it]": 1},
)


def x() -> Array:
    """The tokens, a row each: (8, 16) float64 of 0, 1 and −1."""
    return np.array([[float(token.get(feature, 0)) for feature in FEATURES] for token in _TOKEN_FEATURES])


def layer(n_heads: int = 4) -> MultiHead:
    """The layer with 1, 2, 4 or 8 heads: the same four matrices (16, 16), cut into slices of 16 / n_heads channels."""
    _check_heads(n_heads)
    w_q, w_k = np.zeros((2, len(FEATURES), len(QUESTIONS)))
    for channel, question in enumerate(QUESTIONS):
        w_q[FEATURES.index(question.asks), channel] = question.ask
        w_k[FEATURES.index(question.answers), channel] = question.answer
    word = np.eye(len(FEATURES), len(_WORDS))
    return MultiHead(w_q, w_k, np.tile(word, len(SLICES)), np.eye(len(FEATURES)), n_heads)


def map(n_heads: int = 4, temperature: float = 1.0) -> AttentionMap:  # noqa: A001 (as MultiHead.map)
    """The weights of every head over the sentence, (n_heads, 8, 8); the temperature is above 0, and 1 changes nothing.

    >>> map(4)[1, 7].round(2).tolist()  # "it", in the slice `reference`: it looks at "cat"
    [0.01, 0.92, 0.01, 0.01, 0.01, 0.05, 0.01, 0.0]
    """
    return layer(n_heads).map(x(), temperature=temperature)


def names(n_heads: int = 4) -> tuple[str, ...]:
    """What each head does, (n_heads,) short names."""
    _check_heads(n_heads)
    if n_heads == 1:
        return ("every question",)
    if n_heads > len(SLICES):
        parts = n_heads // len(SLICES)
        return tuple(f"{name}, half {part + 1}" for name in SLICES for part in range(parts))
    joined = len(SLICES) // n_heads
    return tuple(" + ".join(SLICES[at : at + joined]) for at in range(0, len(SLICES), joined))


def _check_heads(n_heads: int) -> None:
    if isinstance(n_heads, bool) or n_heads not in HEADS:
        raise ArgumentError(
            f"n_heads of the toy layer is one of {', '.join(str(each) for each in HEADS)}, got {n_heads!r}"
        )
