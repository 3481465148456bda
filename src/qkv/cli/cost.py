"""`qkv cost`: what attention costs, in one layer or a whole model."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from qkv.cli import _bill, _terminal
from qkv.cli._bill import Bill
from qkv.cli._errors import Failure, Usage
from qkv.cost import DTYPES, MODELS, Layer, layer, model
from qkv.errors import ArgumentError

EXAMPLES = """\b
Examples:
  qkv cost
  qkv cost vit-b-16 --n 196
  qkv cost llama-3-8b --n 1 --cached 8191 --dtype bfloat16
  qkv cost path/to/config.json --json
  qkv cost --d 512 --heads 8 --n 100 --causal
"""
R = 64  # neighbours that a restricted layer sees, where there are as many

_NAMES = ", ".join(MODELS)
Config = Annotated[
    str | None, typer.Argument(metavar="MODEL", help=f"{_NAMES}, or a config.json of transformers.", show_default=False)
]
Tokens = Annotated[int | None, typer.Option(metavar="N", min=1, help="Tokens of the pass; by default all it takes.")]
Cached = Annotated[int, typer.Option(metavar="N", min=0, help="Tokens before them, whose keys are in the cache.")]
Memory = Annotated[int | None, typer.Option(metavar="N", min=1, help="Cross-attention to a memory of N vectors.")]
Width = Annotated[int | None, typer.Option(metavar="N", min=1, help="d_model, for a layer without a MODEL.")]
Heads = Annotated[int | None, typer.Option(metavar="N", min=1, help="Heads of that layer.")]
KVHeads = Annotated[int | None, typer.Option(metavar="N", min=1, help="Its key and value heads, if fewer.")]
Causal = Annotated[bool | None, typer.Option("--causal/--no-causal", help="Whether a token sees only those before it.")]
Biases = Annotated[str | None, typer.Option(metavar="LETTERS", help="Projections with a bias, among q, k, v and o.")]
Batch = Annotated[int, typer.Option(metavar="N", min=1, help="Sequences at once.")]
DType = Annotated[str, typer.Option(metavar="NAME", help=f"{', '.join(DTYPES)}.")]
Kernel = Annotated[int, typer.Option(metavar="N", min=2, help="Kernel of the convolutional layer beside it.")]
Neighbours = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help=f"Neighbours in the restricted layer beside it; {R} unless given."),
]
AsJSON = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


def cost(
    config: Config = None,
    n: Tokens = None,
    cached: Cached = 0,
    memory: Memory = None,
    d: Width = None,
    heads: Heads = None,
    kv_heads: KVHeads = None,
    causal: Causal = None,
    biases: Biases = None,
    batch: Batch = 1,
    dtype: DType = "float32",
    k: Kernel = 3,
    r: Neighbours = None,
    as_json: AsJSON = False,
) -> None:
    """Count what attention costs: multiply-adds, parameters, memory, cache.

    Without MODEL and --d it shows the built-in models side by side. A config that lacks a size, or sets something whose
    cost is not known, is refused by the name of the setting.
    """
    if dtype not in DTYPES:
        raise Usage(f"--dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
    own = {"--d": d, "--heads": heads, "--kv-heads": kv_heads, "--memory": memory}
    call = {"cached": cached, "batch": batch, "dtype": dtype}
    if config is not None:
        _refuse(own, "describes a layer of its own; leave MODEL out")
        bill = _of_model(config, n, causal, biases, call, k, r)
    elif d is not None:
        bill = _of_layer(_layer(d, heads, kv_heads, biases), n, memory, causal, call, k, r)
    else:
        _refuse({**own, "--n": n, "--cached": cached or None, "--causal": causal, "--biases": biases, "--r": r})
        _overview(batch, dtype, as_json=as_json)
        return
    if as_json:
        _terminal.write(_bill.as_json(bill))
    else:
        _terminal.write(_bill.page(bill, _terminal.stdout_colour(), _terminal.stdout_width()))


def _refuse(options: dict[str, Any], why: str = "needs a MODEL, or --d and --heads") -> None:
    """Usage when one of these options is given."""
    for option, value in options.items():
        if value is not None:
            raise Usage(f"{option} {why}")


def _overview(batch: int, dtype: str, *, as_json: bool) -> None:
    found = {name: (each, each.cost(batch=batch, dtype=dtype)) for name in MODELS for each in [model(name)]}
    if as_json:
        _terminal.write(_bill.overview_json(found, dtype))
    else:
        _terminal.write(_bill.overview(found, dtype, _terminal.stdout_colour(), _terminal.stdout_width()))


def _of_model(
    name: str, n: int | None, causal: bool | None, biases: str | None, call: dict[str, Any], k: int, r: int | None
) -> Bill:
    """The bill of a model: of its first layer, and of the whole."""
    whole = model(name if name in MODELS else _read(name), causal=causal, biases=biases)
    if n is None and whole.positions is None:
        raise Usage(f"{name} does not say how many tokens it takes; give --n")
    try:
        spent = whole.cost(n, **call)
    except ArgumentError as error:
        raise Usage(str(error)) from error
    return Bill(
        name=name, causal=whole.causal, cross=False, layer=whole.layer, cost=spent.layers[0], model=whole, whole=spent,
        k=k, r=_neighbours(r, spent.layers[0].n_k), **call,
    )  # fmt: skip


def _of_layer(
    sizes: Layer, n: int | None, memory: int | None, causal: bool | None, call: dict[str, Any], k: int, r: int | None
) -> Bill:
    """The bill of a layer without a model."""
    if n is None:
        raise Usage("--d needs --n, the number of tokens")
    try:
        spent = sizes.cost(n, memory, causal=bool(causal), **call)
    except ArgumentError as error:
        raise Usage(str(error)) from error
    return Bill(
        name="An attention layer", causal=bool(causal), cross=memory is not None, layer=sizes, cost=spent, model=None,
        whole=None, k=k, r=_neighbours(r, spent.n_k), **call,
    )  # fmt: skip


def _layer(d: int, heads: int | None, kv_heads: int | None, biases: str | None) -> Layer:
    if heads is None:
        raise Usage("--d needs --heads, as each head has weights of its own")
    if d % heads:
        raise Usage(f"--heads {heads} must divide --d {d}")
    try:
        return layer(d, heads, kv_heads, biases=biases or "")
    except ArgumentError as error:
        raise Usage(str(error)) from error


def _neighbours(r: int | None, n: int) -> int:
    if r is not None and r > n:
        raise Usage(f"--r {r} must be at most the {n} tokens there are")
    return min(R, n) if r is None else r


def _read(name: str) -> dict[str, Any]:
    """The content of a config.json, or of the one in a folder."""
    path = Path(name)
    path = path / "config.json" if path.is_dir() else path
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise Usage(f"MODEL must be {_NAMES} or a config.json, and there is no file {name!r}") from error
    except OSError as error:
        raise Failure(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise Failure(f"{path} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise Failure(f"{path} holds no JSON object, so it is no config")
    return found
