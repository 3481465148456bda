"""What `qkv cost` counted, as tables for a terminal or as one JSON object."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from io import StringIO
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from qkv.cli._terminal import Colour, bold, wrap
from qkv.cost import Cost, Flip, Kind, Layer, Model, ModelCost, ScoreCost, additive, dot, flips, kinds

NOTE = (
    "A multiply-add is two FLOPs, and 1 MB is 10⁶ bytes. Pairs that are hidden are not counted; nor are the softmax, "
    "norms and activation functions."
)
GAP = 2  # columns between two columns of a table


@dataclass(frozen=True)
class Bill:
    """What one layer costs, alone or in a model; k and r are of the kinds of layer that stand beside it."""

    name: str
    dtype: str
    batch: int
    causal: bool
    cached: int
    cross: bool
    layer: Layer
    cost: Cost
    model: Model | None
    whole: ModelCost | None
    k: int
    r: int

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of layer, which all carry a sequence into one of the same length."""
        return () if self.cross else kinds(self.cost.n_k, self.layer.d_model, self.k, self.r)

    @property
    def flips(self) -> tuple[Flip, ...]:
        """Where they change places."""
        return () if self.cross else flips(self.layer.d_model, self.k)

    @property
    def scores(self) -> tuple[ScoreCost, ...]:
        """The two scores in one head of one sequence, over all pairs of the whole of it."""
        return dot(*self.pairs, self.layer.d_k), additive(*self.pairs, self.layer.d_k)

    @property
    def pairs(self) -> tuple[int, int]:
        """Queries and keys of the whole sequence, those of earlier steps too."""
        return self.cost.n_q + self.cached, self.cost.n_k


def page(bill: Bill, colour: Colour, width: int) -> str:
    """Everything, for a terminal of this width."""
    parts = [_heading(bill, colour, width), _time(bill, colour, width), _memory(bill, colour, width)]
    if bill.model is not None and bill.whole is not None:
        parts.append(_model(bill.model, bill.whole, colour, width))
    if bill.kinds:
        parts.append(_kinds(bill, colour, width))
    return "\n\n".join([*parts, _scores(bill, colour, width), wrap(NOTE, width)])


def overview(models: dict[str, tuple[Model, ModelCost]], dtype: str, colour: Colour, width: int) -> str:
    """The models whose configs are built in, a line each, at the length each was built for."""
    columns = ["model", "layers", "heads", "width", "tokens", "parameters", "multiply-adds", "cache"]
    rows = [
        [
            name,
            str(model.n_layers),
            _heads(model.layer),
            count(model.layer.d_model),
            count(cost.layers[0].n_q),
            count(sum(model.parameters.values())),
            count(cost.multiply_adds or 0),
            "none" if cost.kv_cache_bytes is None else size(cost.kv_cache_bytes),
        ]
        for name, (model, cost) in models.items()
    ]
    more = (
        "qkv cost NAME shows where it goes, and takes a config.json as well; qkv cost --d 768 --heads 12 --n 196 shows "
        "a layer of any size."
    )
    title = f"One pass over as many tokens as each was built for, {dtype}"
    table = _table(title, columns, rows, colour, width, left=1, spare=(2, 3, 1, 4, 7))
    return f"{table}\n\n{wrap(more, width)}"


def _heading(bill: Bill, colour: Colour, width: int) -> str:
    layer, cost = bill.layer, bill.cost
    layers = f"{bill.model.n_layers} layers of " if bill.model else ""
    shared = f", {layer.n_kv_heads} key heads" if layer.n_kv_heads != layer.n_heads else ""
    size_of = f"{layers}{_number(layer.n_heads, 'head')}{shared}, d_model {count(layer.d_model)}, d_k {layer.d_k}"
    if bill.cross:
        tokens = f"{_number(cost.n_q, 'token')} over a memory of {count(cost.n_k)}"
    elif bill.cached:
        tokens = f"{_number(cost.n_q, 'token')} after {count(bill.cached)} in the cache"
    else:
        tokens = _number(cost.n_q, "token")
    sees = "each sees those before it" if bill.causal else "each sees all"
    batch = f", {bill.batch} sequences" if bill.batch > 1 else ""
    said = (f"{size_of}.", f"{tokens}, {sees}{batch}, {bill.dtype}.")
    lines = [bold(bill.name, colour), *(wrap(each, width) for each in said)]
    positions = bill.model.positions if bill.model else None
    if bill.model and (windows := [window for window in bill.model.windows if window is not None]):
        every = len(windows) == bill.model.n_layers
        where = "every layer" if every else f"{len(windows)} of {bill.model.n_layers} layers; layer 0 is shown"
        lines.append(wrap(f"A window of {count((windows[0][0] or 0) + 1)} keys in {where}.", width))
    if positions is not None and cost.n_k > positions:
        lines.append(wrap(f"Longer than the {count(positions)} tokens it was built for.", width))
    return "\n".join(lines)


def _time(bill: Bill, colour: Colour, width: int) -> str:
    cost = bill.cost
    pairs = f"{count(cost.pairs)} pairs a head"
    rows = [
        ("projections", "x W_Q, x W_K, x W_V, · W_O", cost.projections),
        ("scores", f"Q Kᵀ, {pairs}", cost.scores),
        ("average", f"A V, {pairs}", cost.average),
        ("all", "", cost.multiply_adds),
    ]
    table = _table(
        f"One {'cross-' if bill.cross else ''}attention layer",
        ["", "", "multiply-adds", "share"],
        [[name, how, count(number), f"{number / cost.multiply_adds:.1%}"] for name, how, number in rows],
        colour, width, spare=(1,),
    )  # fmt: skip
    between = cost.scores + cost.average
    larger, smaller = max(cost.projections, between), min(cost.projections, between)
    first, second = ("projections", "pairs") if cost.projections >= between else ("pairs", "projections")
    ratio = f"The {first} take {larger / smaller:.3g} times as many as the {second}." if smaller else ""
    return f"{table}\n{wrap(ratio, width)}" if ratio else table


def _memory(bill: Bill, colour: Colour, width: int) -> str:
    layer, cost, held = bill.layer, bill.cost, bill.cost.activations
    batch = f"{bill.batch} · " if bill.batch > 1 else ""
    rows = [
        ("parameters", "the same for any n", layer.parameters),
        ("weights", f"{batch}{layer.n_heads} · {count(cost.n_q)} · {count(cost.keys)}, where stored", held.weights),
        ("lse", "what fused attention keeps of them", held.lse),
        ("q, k, v", "", held.q + held.k + held.v),
        ("output", "of the heads, and of the layer", held.heads + held.out),
    ]
    if bill.causal or bill.cached:
        rows.append(("cache", "keys and values for the next token", cost.kv_cache))
    return _table(
        "Its memory",
        ["", "", "numbers", "bytes"],
        [[name, how, count(number), size(number * cost.itemsize)] for name, how, number in rows],
        colour, width, spare=(1,),
    )  # fmt: skip


def _model(model: Model, whole: ModelCost, colour: Colour, width: int) -> str:
    spent = {"attention": whole.attention, **whole.other}
    total = sum(model.parameters.values())
    rows = [
        [name, count(number) if number else "tied", f"{number / total:.1%}", count(spent[name]) if spent[name] else ""]
        for name, number in model.parameters.items()
    ]
    if whole.multiply_adds is not None:
        rows.append(["all", count(total), "", count(whole.multiply_adds)])
    title = f"All {model.n_layers} layers" + (f" and the rest, as {model.counted_as}" if model.counted_as else "")
    table = _table(title, ["", "parameters", "share", "multiply-adds"], rows, colour, width, left=1, spare=(2,))
    said = f"The weights of all layers are {size(whole.weights_bytes)} where stored."
    if whole.kv_cache_bytes is not None:
        said += f" Their cache is {size(whole.kv_cache_bytes)}."
    if model.counted_as is None:
        said += " Beside attention nothing is counted: what else is in it, its config does not say."
    return f"{table}\n{wrap(said, width)}"


def _kinds(bill: Bill, colour: Colour, width: int) -> str:
    names = {"convolutional": f"convolutional, k = {bill.k}", "restricted": f"self-attention, r = {bill.r}"}
    rows = [
        [names.get(each.name, each.name), each.term, *map(count, (each.multiply_adds, each.sequential, each.path))]
        for each in bill.kinds
    ]
    n, d = bill.cost.n_k, bill.layer.d_model
    columns = ["", "", "multiply-adds", "in sequence", "longest path"]
    title = f"Kinds of layer at n = {count(n)} and d = {count(d)}"
    table = _table(title, columns, rows, colour, width, spare=(1, 3, 4))
    said = [
        f"{'fewer' if n < flip.n else 'more' if n > flip.n else 'as many'} "
        f"{'as' if n == flip.n else 'than'} a {flip.above} layer (they are equal at n = {count(flip.n)})"
        for flip in bill.flips
    ]
    both = " and ".join(said)
    return f"{table}\n{wrap(f'Self-attention takes {both}.', width)}"


def _scores(bill: Bill, colour: Colour, width: int) -> str:
    rows = [
        [each.name, how, count(each.multiply_adds), count(each.tanhs), count(each.numbers)]
        for each, how in zip(bill.scores, ("q·k", "tanh(q W + k W) · v"), strict=True)
    ]
    n_q, n_k = map(count, bill.pairs)
    title = f"Two scores in one head of width {bill.layer.d_k}, {n_q} · {n_k} pairs"
    columns = ["", "", "multiply-adds", "tanhs", "numbers stored"]
    return _table(title, columns, rows, colour, width, spare=(1, 3))


def _table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], colour: Colour, width: int,
    *, left: int = 2, spare: Sequence[int] = (),
) -> str:  # fmt: skip
    """A table under its title. The first `left` columns stand left; where room is short, `spare` ones go, in order."""
    wide = [max(cell_len(line[at]) for line in [columns, *rows]) for at in range(len(columns))]
    kept, going = list(range(len(columns))), list(spare)
    while going and sum(wide[at] + GAP for at in kept) - GAP > width:
        kept.remove(going.pop(0))
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="" if colour == "none" else "dim")
    for at in kept:
        table.add_column(columns[at], justify="left" if at < left else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(row[at] for at in kept))
    out = StringIO()
    system: Any = {"truecolor": "truecolor", "256": "256", "none": None}[colour]
    Console(file=out, width=width, color_system=system, force_terminal=colour != "none", highlight=False).print(table)
    return "\n".join([bold(wrap(title, width), colour), *(line.rstrip() for line in out.getvalue().splitlines())])


def count(number: int) -> str:
    """A count as a person says it: 38,416, or 29.5 M."""
    return f"{number:,}" if number < 10**6 else _scaled(number, ("M", "G", "T", "P", "E"), 10**6)


def size(number: int) -> str:
    """Bytes as a person says them, in powers of 1000: 1.84 MB."""
    return f"{number} B" if number < 1000 else _scaled(number, ("kB", "MB", "GB", "TB", "PB", "EB"), 1000)


def _scaled(number: int, units: Sequence[str], unit: int) -> str:
    value, at = number / unit, 0
    # 999.9 with three digits would be 1.00e+03.
    while value >= 999.5 and at + 1 < len(units):
        value, at = value / 1000, at + 1
    digits = f"{value:,.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
    return f"{digits} {units[at]}"


def _number(of: int, what: str) -> str:
    return f"{count(of)} {what}{'' if of == 1 else 's'}"


def _heads(layer: Layer) -> str:
    return str(layer.n_heads) if layer.n_heads == layer.n_kv_heads else f"{layer.n_heads}:{layer.n_kv_heads}"


def as_json(bill: Bill) -> str:
    """One JSON object; every number is a whole one."""
    found: dict[str, Any] = {
        "name": bill.name,
        "dtype": bill.dtype,
        "batch": bill.batch,
        "causal": bill.causal,
        "cached": bill.cached,
        "layer": {**asdict(bill.layer), "parameters": bill.layer.parameters},
        "cost": _cost(bill.cost),
        "model": None if bill.model is None or bill.whole is None else _whole(bill.model, bill.whole),
        "kinds": [asdict(kind) for kind in bill.kinds],
        "flips": [asdict(flip) for flip in bill.flips],
        "scores": [asdict(score) for score in bill.scores],
    }
    return json.dumps(found, allow_nan=False)


def overview_json(models: dict[str, tuple[Model, ModelCost]], dtype: str) -> str:
    """The built-in models as one JSON object."""
    found = {name: {"tokens": whole.layers[0].n_q, **_whole(one, whole)} for name, (one, whole) in models.items()}
    return json.dumps({"dtype": dtype, "models": found}, allow_nan=False)


def _whole(model: Model, whole: ModelCost) -> dict[str, Any]:
    """What is counted of a whole model."""
    return {
        "n_layers": model.n_layers,
        "positions": model.positions,
        "counted_as": model.counted_as,
        "parameters": model.parameters,
        "multiply_adds": {"attention": whole.attention, **whole.other},
        "weights_bytes": whole.weights_bytes,
        "kv_cache_bytes": whole.kv_cache_bytes,
    }


def _cost(cost: Cost) -> dict[str, Any]:
    return {
        **asdict(cost),
        "multiply_adds": cost.multiply_adds,
        "weights_bytes": cost.weights_bytes,
        "kv_cache_bytes": cost.kv_cache_bytes,
    }
