"""What a command looks at: a model, by name or from a folder, a text, and the tokens that the model makes of it."""

import sys
from pathlib import Path

from qkv import models
from qkv._typing import Array
from qkv.cli._errors import Failure, Usage
from qkv.cli._terminal import quote
from qkv.errors import MissingError
from qkv.models import Model, Reader
from qkv.tracing import FOLDERS, pretrained

HELP = "minilm, induction, or a folder that transformers can read."


def load(name: str) -> Reader:
    """The model of this name, or that of a folder."""
    if name in models.NAMES:
        return built_in(name)
    if name in made():
        return pretrained(FOLDERS / name, name)
    folder = Path(name).expanduser()
    if folder.is_dir():
        return pretrained(folder)
    names = [*models.NAMES, *made()]
    raise Usage(
        f"--model {quote(name)} is no folder, and none of {', '.join(names)}; a model from a hub is downloaded into a "
        "folder first"
    )


def built_in(name: str) -> Model:
    """One of the models that run without transformers."""
    if name not in models.NAMES:
        raise Usage(f"--model must be {' or '.join(models.NAMES)}, got {name!r}")
    try:
        return models.load(name)
    except MissingError as error:
        if name == "induction":
            raise
        raise Failure(f"{error}; --model induction needs no download") from error


def made() -> list[str]:
    """The names of the folders that `make models` made, of models that read text."""
    texts = sorted(FOLDERS.glob("*/tokenizer_config.json"))
    return [path.parent.name for path in texts]


def read(text: str) -> str:
    """The text, or what comes in at stdin for "-"."""
    try:
        if text == "-":
            return sys.stdin.buffer.read().decode("utf-8").rstrip("\r\n")
        text.encode("utf-8")  # bytes of the command line that are no UTF-8 arrive as lone surrogates
    except UnicodeError as error:
        source = "stdin" if text == "-" else "TEXT"
        raise Failure(f"{source} is not UTF-8; convert it first") from error
    return text


def tokens(model: Reader, text: str) -> tuple[Array, list[str]]:
    """The ids of the tokens of a text, (n,), and how each is written; one at least is the text's."""
    ids, pieces = model.tokens(text)
    if model.own(ids).all():
        raise Usage("TEXT is empty; give at least one token that is not the model's own")
    return ids, pieces
