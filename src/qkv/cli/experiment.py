"""`qkv experiment`: why the score is divided by √d_k, measured."""

import dataclasses
import json
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from qkv import experiments, models
from qkv.cli import _lessons, _terminal
from qkv.cli._errors import Usage
from qkv.errors import MissingError
from qkv.experiments import HeadSpread

EXAMPLES = """\b
Examples:
  qkv experiment
  qkv experiment gradient --keys 50
  qkv experiment temperature --seed 1 --json
  qkv experiment spread
"""
# Experiments on random queries and keys, with what is measured.
TITLES = {
    "variance": "The variance of a score, by width",
    "saturation": "Saturation, by width",
    "temperature": "Temperature, at d_k = 64",
    "gradient": "Gradient health, by width",
    "split": "One width of 64, split into heads",
    "spread": "The spread of scores in trained heads",
}
NAMES = tuple(TITLES)
KEYS, DRAWS = 10, 2000
MOST_KEYS, MOST_DRAWS = 4096, 1_000_000
TEXT = (
    "The cat sat on the mat because it was tired. The children who had found it wanted to take it home, but their "
    "mother said that it already had one. So they gave it some milk, and it slept until the evening."
)


def experiment(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help=", ".join(NAMES[:-1]) + f" or {NAMES[-1]}.")
    ] = "saturation",
    keys: Annotated[
        int | None, typer.Option(metavar="N", help=f"Keys that each query sees.  [default: {KEYS}]", show_default=False)
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option(metavar="N", help=f"Queries drawn for each figure.  [default: {DRAWS}]", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Of the random numbers.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Measure why the score is divided by √d_k.

    Random queries and keys, except for spread, which measures the heads of trained models. Every figure comes with its
    standard error, and a seed gives the same figures every time.
    """
    if name not in NAMES:
        raise Usage(f"NAME must be {', '.join(NAMES[:-1])} or {NAMES[-1]}, got {name!r}")
    _check(name, keys, draws, seed)
    if name == "spread":
        _spread(seed, as_json)
        return
    n_keys, n_draws = KEYS if keys is None else keys, DRAWS if draws is None else draws
    options: dict[str, Any] = {"n_draws": n_draws, "seed": seed}
    if name != "variance":
        options["n_keys"] = n_keys
    found = getattr(experiments, name)(**options)
    if as_json:
        _print_json({"experiment": name, **options, "figures": [dataclasses.asdict(each) for each in found]})
        return
    page = getattr(_lessons, f"{name}_page")(found, _terminal.stdout_width())
    over = "" if name == "variance" else f" over {n_keys} keys"
    _print_page(name, f"{n_draws} random queries{over}, seed {seed}; ± is one standard error", page)


def _check(name: str, keys: int | None, draws: int | None, seed: int) -> None:
    if keys is not None and name in {"variance", "spread"}:
        raise Usage(f"--keys is not for {name}, which has none to choose")
    if draws is not None and name == "spread":
        raise Usage("--draws is not for spread, which draws nothing: its rows are those of a text")
    for option, given, least, most in (("keys", keys, 1, MOST_KEYS), ("draws", draws, 2, MOST_DRAWS)):
        if given is not None and not least <= given <= most:
            raise Usage(f"--{option} must be {least} to {most}, got {given}")
    if seed < 0:
        raise Usage(f"--seed must be at least 0, got {seed}")


def _spread(seed: int, as_json: bool) -> None:
    """Trained heads, beside a layer that is not trained."""
    found: dict[str, list[tuple[HeadSpread, ...]]] = {"untrained": [experiments.untrained(seed=seed)]}
    missing = {}
    for name in models.NAMES:
        try:
            model = models.load(name)
        except MissingError as error:
            missing[name] = str(error)
            continue
        text = TEXT if name == "minilm" else model.default_text
        found[name] = [experiments.spread(layer) for layer in model.run(model.tokens(text)[0]).maps]
    if as_json:
        layers = {name: [_heads(heads) for heads in each] for name, each in found.items()}
        _print_json({"experiment": "spread", "seed": seed, "figures": layers, "missing": missing})
        return
    page = _lessons.spread_page(found, missing, _terminal.stdout_colour(), _terminal.stdout_width())
    _print_page(
        "spread", "Standard deviation of a row of scaled scores, mean over the rows of a text ± standard error", page
    )


def _heads(heads: Sequence[HeadSpread]) -> list[dict[str, Any]]:
    return [dataclasses.asdict(each) for each in heads]


def _print_json(found: dict[str, Any]) -> None:
    _terminal.write(json.dumps(found, allow_nan=False))


def _print_page(name: str, how: str, page: str) -> None:
    title = _terminal.bold(TITLES[name], _terminal.stdout_colour())
    _terminal.write(f"{title}\n{_terminal.wrap(how, _terminal.stdout_width())}\n\n{page}")
