"""Writes the golden values beside this file: inputs and results of qkv.formula, toy, experiments and cost.

    python tests/golden/write.py

A mirror of the formula in another language is held to them. JSON has no −∞ and no NaN, so these are the strings "-inf"
and "nan"; every other number is what Python prints for the double. Nothing here is typed in but the inputs, and
random inputs are rounded to two decimals. `tests/test_golden.py` recomputes every file.
"""

import dataclasses
import json
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from qkv import cost, experiments, formula, toy
from qkv.models import induction

HERE = Path(__file__).parent
Values = dict[str, Any]
N_DRAWS, SEED = 1000, 0  # of the experiments


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).round(2)


# ---- one row of scores -------------------------------------------------------------------------------------

ROWS = {
    "two keys eight apart": [8, 0],
    "two keys one apart": [1, 0],
    "one of four at sixteen": [16, 0, 0, 0],
    "one of four at two": [2, 0, 0, 0],
    "all alike": [0.5, 0.5, 0.5, 0.5, 0.5],
    "one key": [-3],
    "large scores": [1000, 999, -1000],
    "small differences": [1e-9, 0, -1e-9],
    "one hidden": [1, -math.inf, 2],
    "all hidden": [-math.inf, -math.inf],
    "order one": [0.3, -1.2, 0.7, 2.1, -0.4, 0, 1.5, -2.2, 0.9, -0.1],
}


def softmax() -> Values:
    """Weight, lse, entropy, and what gets through: p(1 − p) of each weight and the norm of the Jacobian."""
    cases = [_softmax(name, row, None) for name, row in ROWS.items()]
    return {"cases": [*cases, _softmax("with a sink", [1, 0, 2], 1.5), _softmax("a sink only", [-math.inf], 0.5)]}


def _softmax(name: str, row: list[float], sink: float | None) -> Values:
    score, extra = np.array([row], float), None if sink is None else np.array([sink])
    weight = formula.weight(score, extra)
    return {
        "name": name,
        "score": row,
        "sink": sink,
        "weight": weight[0],
        "lse": formula.lse(score, extra)[0],
        "entropy": formula.entropy(weight)[0],
        "slope": experiments.slope(weight)[0],
        "jacobian_norm": experiments.jacobian_norm(weight)[0],
    }


# ---- one head ----------------------------------------------------------------------------------------------


def window(n: int, left: int, right: int) -> np.ndarray:
    apart = np.arange(n) - np.arange(n)[:, None]
    return (apart >= -left) & (apart <= right)


BIAS = np.array([[0.5, -1.0, 0.0, 2.0], [0.0, -np.inf, 1.0, 0.0], [-np.inf] * 4])
EMPTY_ROW = np.array([[1, 0, 1, 1], [0, 0, 0, 0], [0, 1, 0, 0]], bool)
# Name: (n_q, n_k, options of formula.attention).
HEADS: dict[str, tuple[int, int, Values]] = {
    "cross": (3, 5, {}),
    "given scale": (3, 5, {"scale": 1.0}),
    "cold": (3, 5, {"temperature": 0.1}),
    "hot": (3, 5, {"temperature": 10.0}),
    "softcap": (3, 5, {"scale": 4.0, "softcap": 2.0}),
    "bias": (3, 4, {"bias": BIAS}),
    "order of the stages": (3, 4, {"temperature": 0.5, "softcap": 1.5, "bias": BIAS}),
    "causal": (4, 4, {"visible": formula.causal(4, 4)}),
    "causal, the last query sees the last key": (2, 5, {"visible": formula.causal(2, 5)}),
    "causal, query 0 beside key 0": (2, 5, {"visible": formula.causal(2, 5, offset=0)}),
    "causal, more queries than keys": (5, 3, {"visible": formula.causal(5, 3)}),
    "window": (5, 5, {"visible": window(5, 1, 0)}),
    "an empty row": (3, 4, {"visible": EMPTY_ROW}),
    "large scores": (3, 5, {"scale": 1000.0}),
}


def attention() -> Values:
    """Every stage from q, k and v to the output, for one head."""
    worked = (np.array([[1.0, 0.0]]), np.eye(2), 2 * np.eye(2))
    cases = [_attention("worked example", *worked, {})]
    for seed, (name, (n_q, n_k, options)) in enumerate(HEADS.items()):
        q, k, v = normal(100 + seed, n_q, 4), normal(200 + seed, n_k, 4), normal(300 + seed, n_k, 3)
        cases.append(_attention(name, q, k, v, options))
    return {"cases": cases, "other_scores": _other_scores()}


def _attention(name: str, q: np.ndarray, k: np.ndarray, v: np.ndarray, options: Values) -> Values:
    given: Values = {"scale": None, "temperature": 1.0, "softcap": None, "bias": None, "visible": None, **options}
    raw = formula.score(q, k, given["scale"]) / given["temperature"]
    biased = formula.biased_score(q, k, **given)
    weight = formula.weight(biased)
    return {
        "name": name,
        "q": q,
        "k": k,
        "v": v,
        **given,
        "dot": formula.dot_score(q, k),
        "raw": raw,
        "capped": raw if given["softcap"] is None else formula.cap(raw, given["softcap"]),
        "biased": biased,
        "weight": weight,
        "lse": formula.lse(biased),
        "entropy": formula.entropy(weight),
        "output": formula.average(weight, v, biased != -np.inf),
        "output_shape": formula.output_shape(len(q), len(k), v.shape[1]),
    }


def _other_scores() -> Values:
    q, k, v = normal(1, 3, 4), normal(2, 5, 6), normal(3, 5, 2)
    w, w_q, w_k, w_v, b = normal(4, 4, 6), normal(5, 4, 3), normal(6, 6, 3), normal(7, 3), normal(8, 3)
    additive = formula.additive_score(q, k, w_q, w_k, w_v, b)
    bilinear = formula.bilinear_score(q, k, w)
    inputs = {"q": q, "k": k, "v": v, "w": w, "w_q": w_q, "w_k": w_k, "w_v": w_v, "b": b}
    results = {"additive": additive, "bilinear": bilinear, "additive_output": formula.blend(additive, v)}
    return inputs | results | {"bilinear_output": formula.blend(bilinear, v)}


# ---- many heads --------------------------------------------------------------------------------------------


def heads() -> Values:
    """Projections, splitting and merging, whole layers, grouped heads, the non-local block."""
    x, w_q, w_k, w_v = (
        np.array([[1, 2]]),
        *(np.array(w) for w in ([[1, 0], [1, 1]], [[0, 1], [1, 0]], [[2, 0], [0, 2]])),
    )
    q, k, v = formula.project_qkv(x, w_q, w_k, w_v)
    rows = np.arange(24).reshape(4, 6)
    parts = formula.split(rows, 3)
    return {
        "lesson": {"x": x, "w_q": w_q, "w_k": w_k, "w_v": w_v, "q": q, "k": k, "v": v},
        "split": {"x": rows, "n_heads": 3, "heads": parts, "merged": formula.merge(parts)},
        "repeat_heads": {"k": parts, "n_heads": 6, "repeated": formula.repeat_heads(parts, 6)},
        "shapes": [{"arguments": each, **_shapes(*each)} for each in ((8, 16, 4, 4), (196, 768, 64, 48))],
        "layers": [_layer(n_heads, memory) for n_heads in (1, 2, 4) for memory in (False, True)],
        "nonlocal_block": _nonlocal(),
    }


def _shapes(n: int, d_model: int, d_k: int, d_v: int) -> Values:
    counted = formula.param_count(d_model, d_k, d_v)
    return {"qkv_shapes": formula.qkv_shapes(n, d_model, d_k, d_v), "param_count": counted}


def _layer(n_heads: int, cross: bool) -> Values:
    x, memory = normal(11, 5, 8), normal(12, 3, 8) if cross else None
    w_q, w_k, w_v, w_o = (normal(13 + at, 8, 8) for at in range(4))
    source = x if memory is None else memory
    weight = formula.weight(formula.score(formula.split(x @ w_q, n_heads), formula.split(source @ w_k, n_heads)))
    visible = None if cross else formula.causal(5, 5)
    given = {"x": x, "memory": memory, "w_q": w_q, "w_k": w_k, "w_v": w_v, "w_o": w_o, "n_heads": n_heads}
    output = formula.multi_head(x, w_q, w_k, w_v, w_o, n_heads, memory)
    causal = formula.multi_head(x, w_q, w_k, w_v, w_o, n_heads, memory, visible)
    return given | {"weight": weight, "output": output, "causal_output": None if cross else causal}


def _nonlocal() -> Values:
    x, w_theta, w_phi, w_g = normal(21, 2, 3, 4), normal(22, 4, 3), normal(23, 4, 3), normal(24, 4, 2)
    given = {"x": x, "w_theta": w_theta, "w_phi": w_phi, "w_g": w_g}
    return given | {"output": formula.nonlocal_block(x, w_theta, w_phi, w_g)}


# ---- toy, experiments, cost --------------------------------------------------------------------------------


def toy_layer() -> Values:
    """The toy layer: its features and questions, its matrices, and its maps for every number of heads."""
    layer = toy.layer(1)
    matrices = {name: getattr(layer, name) for name in ("w_q", "w_k", "w_v", "w_o")}
    named = {"tokens": toy.TOKENS, "features": toy.FEATURES, "slices": toy.SLICES}
    questions = [question._asdict() for question in toy.QUESTIONS]
    return named | matrices | {"questions": questions, "x": toy.x(), "heads": [_toy(each) for each in toy.HEADS]}


def _toy(n_heads: int) -> Values:
    layer = toy.layer(n_heads)
    q, k, _ = layer.project(toy.x())
    return {
        "n_heads": n_heads,
        "names": toy.names(n_heads),
        "dot": formula.dot_score(q, k),
        "weights": {f"{each:g}": np.asarray(toy.map(n_heads, each)) for each in (0.25, 1.0, 4.0)},
        "output": layer(toy.x()),
    }


def measured() -> Values:
    """Each experiment with these draws and this seed, and the spread in the induction model, run in float64."""
    from safetensors.numpy import load_file

    options = {"n_draws": N_DRAWS, "seed": SEED}
    names = ("variance", "saturation", "temperature", "gradient", "split")
    found = {name: [dataclasses.asdict(each) for each in getattr(experiments, name)(**options)] for name in names}
    arrays = load_file(Path(induction.__file__).with_name("induction.safetensors"))
    model = induction.Induction.from_arrays({name: array.astype(np.float64) for name, array in arrays.items()})
    maps = model.run(model.tokens(model.default_text)[0]).maps
    trained = [[dataclasses.asdict(head) for head in experiments.spread(map_)] for map_ in maps]
    untrained = [dataclasses.asdict(head) for head in experiments.untrained(seed=SEED)]
    return {**options, **found, "spread": {"untrained": untrained, "induction": trained}}


def costs() -> Values:
    """Layers, whole models, the table of kinds of layers, where the order flips, and the two scores."""
    sizes = ((196, 768), (50, 512), (224**2, 768), (1000, 64))
    layers = ((768, 12, 196), (512, 8, 50), (4096, 32, 8192))
    return {
        "kinds": [
            {"n": n, "d": d, "k": 3, "kinds": [dataclasses.asdict(each) for each in cost.kinds(n, d)]} for n, d in sizes
        ],
        "flips": [{"d": d, "flips": [dataclasses.asdict(each) for each in cost.flips(d)]} for d in (64, 512, 768)],
        "layers": [_cost(*each, causal=causal) for each in layers for causal in (False, True)],
        "models": [{"name": name, "parameters": cost.model(name).parameters} for name in sorted(cost.MODELS)],
        "scores": [
            {
                "n_q": n,
                "n_k": n,
                "d_k": d,
                **{each.__name__: dataclasses.asdict(each(n, n, d)) for each in (cost.dot, cost.additive)},
            }
            for n, d in ((8, 4), (196, 64))
        ],
    }


def _cost(d_model: int, n_heads: int, n: int, *, causal: bool) -> Values:
    layer = cost.layer(d_model, n_heads)
    found = layer.cost(n, causal=causal)
    sums = {name: getattr(found, name) for name in ("multiply_adds", "weights_bytes", "kv_cache_bytes")}
    given = {"d_model": d_model, "n_heads": n_heads, "n": n, "causal": causal, "parameters": layer.parameters}
    return given | dataclasses.asdict(found) | sums


# ---- the files ---------------------------------------------------------------------------------------------

FILES: dict[str, Callable[[], Values]] = {
    "softmax": softmax,
    "attention": attention,
    "heads": heads,
    "toy": toy_layer,
    "experiments": measured,
    "cost": costs,
}


def plain(value: Any) -> Any:
    """Arrays as lists, and what JSON has no number for as a string."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(each) for each in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def text(values: Values) -> str:
    """Sorted names, a list of numbers on a line of its own: the same text for the same values."""
    laid_out = json.dumps(plain(values), sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False)
    short = re.sub(r"\[\n\s+([^\[\]{}]*?)\n\s*\]", lambda found: f"[{' '.join(found[1].split())}]", laid_out)
    return short + "\n"


def main() -> None:
    for name, values in FILES.items():
        path = HERE / f"{name}.json"
        path.write_text(text(values()), encoding="utf-8")
        sys.stdout.write(f"{path.name}: {path.stat().st_size / 1000:.0f} kB\n")


if __name__ == "__main__":
    main()
