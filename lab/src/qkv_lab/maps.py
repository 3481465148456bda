"""Maps of trained heads, as the pages of the lab read them: computed by qkv when asked for, or recorded beforehand.

    python -m qkv_lab.maps FOLDER           records every head of the models that are here, one file for each model

Recorded maps are what a page shows where no server computes. `index.json` lists them:

    {"sets": [{"file", "model", "title", "text", "n_tokens", "n_layers", "n_heads"}, …]}

and each set holds what `text_of` says of the text, and under "heads" what `head_of` says of each head.
"""

import json
import sys
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from qkv import models
from qkv._typing import Array
from qkv.cli.patterns import Survey, survey
from qkv.errors import ArgumentError, MissingError
from qkv.models import Model, Run

TITLES = {
    "induction": "A small model that learned to copy",
    "minilm": "MiniLM, a trained sentence encoder",
}
MOST_CHARACTERS = 2000
MOST_TOKENS = 128  # a map of more is no picture that a page can show cell by cell
DIGITS = 4  # of what is recorded and sent; a row then sums to 1 within n · 0.00005

_loading = Lock()  # two requests at once read a file of weights once


class Seen(NamedTuple):
    """One model run over one text, with what was found about its heads."""

    model: Model
    text: str
    tokens: tuple[str, ...]
    own: tuple[bool, ...]
    run: Run
    found: Survey


def model_of(name: str) -> Model:
    """The model of this name, read once; `MissingError` where its weights are not installed."""
    with _loading:
        return _model_of(name)


@lru_cache
def _model_of(name: str) -> Model:
    return models.load(name)


def known() -> list[dict[str, Any]]:
    """What there is to know of each model before it runs; of one that is not installed, how to get it."""
    listed = []
    for name, title in TITLES.items():
        about: dict[str, Any] = {"name": name, "title": title, "installed": True, "missing": None}
        try:
            model = model_of(name)
        except MissingError as error:
            listed.append({**about, "installed": False, "missing": str(error)})
        else:
            sizes = {"n_layers": model.n_layers, "n_heads": model.n_heads, "causal": model.causal}
            most = {"max_tokens": min(MOST_TOKENS, model.max_length), "default_text": model.default_text}
            listed.append({**about, **sizes, **most})
    return listed


@lru_cache(maxsize=8)
def see(name: str, text: str) -> Seen:
    """Run a model over a text; `ArgumentError` says what it does not take."""
    if name not in TITLES:
        raise ArgumentError(f"model must be {' or '.join(TITLES)}, got {name!r}")
    if len(text) > MOST_CHARACTERS:
        raise ArgumentError(f"text may have {MOST_CHARACTERS} characters here, got {len(text)}")
    model = model_of(name)
    ids, tokens = model.tokens(text)
    if len(ids) > MOST_TOKENS:
        raise ArgumentError(f"the lab shows at most {MOST_TOKENS} tokens, got {len(ids)}; shorten the text")
    own = model.own(ids)
    if own.all():
        raise ArgumentError("text is empty; give at least one token that is not the model's own")
    run = model.run(ids)
    found = survey(run, ids, own | (np.arange(len(ids)) == 0))
    return Seen(model, text, tuple(tokens), tuple(own.tolist()), run, found)


def text_of(seen: Seen) -> dict[str, Any]:
    """The model and the tokens of its text; own: whether a token is the model's own, such as [CLS]."""
    model = seen.model
    return {
        "model": model.name,
        "title": TITLES[model.name],
        "causal": model.causal,
        "n_layers": model.n_layers,
        "n_heads": model.n_heads,
        "text": seen.text,
        "tokens": list(seen.tokens),
        "own": list(seen.own),
        "digits": DIGITS,
    }


def head_of(seen: Seen, layer: int, head: int) -> dict[str, Any]:
    """One head: its weight (n × n), its value-weighted shares (n × n), entropy of each row in nats, and its pattern.

    All numbers are rounded to `DIGITS` digits. pattern: {"name", "looks_at"}, or None where `qkv look` finds none.
    """
    for name, given, size in (("layer", layer, seen.model.n_layers), ("head", head, seen.model.n_heads)):
        if not 0 <= given < size:
            raise ArgumentError(f"{name} is {given}, but {seen.model.name} has {name}s 0 to {size - 1}")
    map_ = seen.run.maps[layer][head]
    finding = seen.found.of(layer, head)
    pattern = None
    if finding is not None:
        key = "" if finding.key is None else seen.tokens[finding.key]
        pattern = {"name": finding.pattern.name, "looks_at": finding.pattern.looks_at.format(key=key)}
    return {
        "layer": layer,
        "head": head,
        "pattern": pattern,
        "weight": rounded(np.asarray(map_)),
        "value_weighted": rounded(np.asarray(seen.run.value_weighted(layer)[head])),
        "entropy": rounded(map_.entropy()),
    }


def rounded(numbers: Array) -> list[Any]:
    """Nested lists of numbers with `DIGITS` digits; a zero is written 0."""
    exact = np.round(np.asarray(numbers, np.float64), DIGITS)
    return [rounded(row) for row in exact] if exact.ndim > 1 else [each or 0 for each in exact.tolist()]


def record(folder: Path) -> list[str]:
    """Write the maps of every model that is here into a folder; what it has of others stays. Returns their names."""
    folder.mkdir(parents=True, exist_ok=True)
    sets = []
    for name in TITLES:
        file = folder / f"{name}.json"
        try:
            seen = see(name, model_of(name).default_text)
        except MissingError:
            if not file.is_file():
                continue
            kept = json.loads(file.read_text(encoding="utf-8"))
        else:
            places = [(layer, head) for layer in range(seen.model.n_layers) for head in range(seen.model.n_heads)]
            kept = {**text_of(seen), "heads": [head_of(seen, *place) for place in places]}
            write(file, kept)
        heading = {key: kept[key] for key in ("model", "title", "text", "n_layers", "n_heads")}
        sets.append({"file": file.name, **heading, "n_tokens": len(kept["tokens"])})
    write(folder / "index.json", {"sets": sets})
    return [each["model"] for each in sets]


def write(path: Path, value: dict[str, Any]) -> None:
    """As JSON without spaces."""
    path.write_text(json.dumps(value, separators=(",", ":"), allow_nan=False), encoding="utf-8")


if __name__ == "__main__":
    record(Path(sys.argv[1]))
