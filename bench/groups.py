"""What `make bench` measures: groups of sides that take turns, and the figures that come of that."""

import os
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import passes
import peak
import peers
import problems
from problems import Shape
from turns import Missing, Side, Turns, cause, take

import qkv

FULL, CAUSAL = Shape(8, 2048, 2048, 64), Shape(8, 2048, 2048, 64, causal=True)
WIDE, PATCHES = Shape(8, 2048, 2048, 128), Shape(12, 196, 196, 64)
SHORT = Shape(8, 512, 512, 64, causal=True)
DECODE, GROUPED = Shape(32, 1, 8192, 128), Shape(32, 1, 32768, 128, kv_heads=8)
MEASURED, SMALL = Shape(1, 8192, 8192, 64), Shape(1, 16, 16, 64)
SEEDS = 5

PEAK_GOALS = {
    (FULL, "float32"): 0.90, (WIDE, "float32"): 0.92, (PATCHES, "float32"): 0.82, (SHORT, "float32"): 0.80,
    (FULL, "bfloat16"): 0.83, (WIDE, "bfloat16"): 0.86,
}  # fmt: skip
SDPA_GOALS = {
    (FULL, "float32"): 1.3, (CAUSAL, "float32"): 1.5, (SHORT, "float32"): 2.4,
    (FULL, "bfloat16"): 2.4, (CAUSAL, "bfloat16"): 2.8,
}  # fmt: skip
READ_GOAL, V3_GOAL, FIRST_GOAL, SECOND_GOAL, CALL_GOAL = 0.92, 0.90, 1.02, 0.65, 15.0
ERROR_GOALS = {"float32": 1.0, "bfloat16": 1.2, "float16": 1.0}


class Run(NamedTuple):
    """How many threads a process measures with, on which clock, and how many seconds its next group may take turns."""

    threads: int
    clock: Callable[[], float]
    limit: float


class Figure(NamedTuple):
    """A number of a table: from the seconds of one turn of these sides, and the number of threads."""

    table: str
    row: str
    dtype: str
    unit: str  # "×", "%", "µs" or "ms"
    sides: tuple[str, ...]
    of: Callable[[dict[str, float], int], float]
    goal: float | None = None
    at_most: bool = False


class Group(NamedTuple):
    """Sides that take turns; `turns` gives their seconds, and why others are missing."""

    name: str
    figures: tuple[Figure, ...]
    turns: Callable[[Run], tuple[Turns, dict[str, str]]]


def opened(makers: dict[str, Callable[[], Side]]) -> tuple[dict[str, Side], dict[str, str]]:
    """The sides that can be made here, and why the others can't."""
    sides, missing = {}, {}
    for name, make in makers.items():
        try:
            sides[name] = make()
        except Exception as error:  # noqa: BLE001 (whatever a library raises, the rest goes on)
            missing[name] = cause(error)
    return sides, missing


def timed(makers: Callable[[Run], dict[str, Callable[[], Side]]], run: Run) -> tuple[Turns, dict[str, str]]:
    sides, missing = opened(makers(run))
    return take(sides, run.clock, run.limit), missing


def share_of_peak(shape: Shape, dtype: str, turn: dict[str, float], threads: int) -> float:
    return shape.flops / turn["qkv"] / (threads * peak.flops(dtype) / turn["peak"])


def ratio(above: str, below: str, turn: dict[str, float], _threads: int) -> float:
    return turn[above] / turn[below]


def scaled(name: str, factor: float, turn: dict[str, float], _threads: int) -> float:
    return turn[name] * factor


def attention(shape: Shape, dtype: str, others: tuple[str, ...] = (), loops: tuple[str, ...] = ()) -> Group:
    """qkv beside these peers, and beside loops of peak.cpp: "peak", or "read" and "four places"."""
    table = f"Beside other libraries: {shape}"
    figures = []
    if "peak" in loops:
        of, goal = partial(share_of_peak, shape, dtype), PEAK_GOALS[shape, dtype]
        figures.append(Figure("Share of the peak", str(shape), dtype, "%", ("qkv", "peak"), of, goal))
    for name, said, goal in (("read", "in order", READ_GOAL), ("four places", "at four places at once", None)):
        if name in loops:
            row, of = f"{shape}, reading {said}", partial(ratio, name, "qkv")
            figures.append(Figure("Share of reading alone", row, dtype, "%", ("qkv", name), of, goal))
    if others:
        figures.append(Figure(table, "qkv itself", dtype, "ms", ("qkv",), partial(scaled, "qkv", 1e3)))
    for name in others:
        goal = SDPA_GOALS.get((shape, dtype), 2.0 if shape.causal else 1.0) if name == "torch SDPA" else None
        goal = goal or (2.0 if shape.causal else 1.0)
        figures.append(Figure(table, name, dtype, "×", (name, "qkv"), partial(ratio, name, "qkv"), goal))
    makers = partial(attention_sides, shape, dtype, others, loops)
    return Group(f"{shape} {dtype}", tuple(figures), partial(timed, makers))


def attention_sides(
    shape: Shape, dtype: str, others: tuple[str, ...], loops: tuple[str, ...], run: Run
) -> dict[str, Callable[[], Side]]:
    problems.forget()
    given = problems.arrays(shape, dtype)

    def checked(maker: Callable[..., peers.Call]) -> Side:
        made = maker(shape, given, run.threads)
        problems.check(shape, dtype, given, made.answer(made.call()))
        return Side(made.call)

    makers: dict[str, Callable[[], Side]] = {"qkv": partial(checked, peers.own)}
    makers |= {name: partial(checked, peers.PEERS[name]) for name in others}
    known: dict[str, Callable[[], Side]] = {
        "peak": partial(peak.multiply_adds, dtype),
        "read": partial(peak.reading, given[1:], run.threads, "read_in_order"),
        "four places": partial(peak.reading, given[1:], run.threads, "read_four_places"),
    }
    return makers | {name: known[name] for name in loops}


def kernels_sides(run: Run) -> dict[str, Callable[[], Side]]:
    """The same call in two builds; which one runs is asked for at each call."""
    call = peers.own(FULL, problems.arrays(FULL, "float32"), run.threads).call
    runs = {kernel.name for kernel in qkv.kernels() if kernel.runs}

    def make(name: str) -> Side:
        if name not in runs:
            raise Missing(f"the kernel {name} can't run here")
        return Side(partial(_in_kernel, name, call))

    return {name: partial(make, name) for name in ("v3", "v4")}


def _in_kernel(name: str, call: Callable[[], object]) -> None:
    before = os.environ.get("QKV_KERNEL")
    os.environ["QKV_KERNEL"] = name
    try:
        call()
    finally:
        if before is None:
            del os.environ["QKV_KERNEL"]
        else:
            os.environ["QKV_KERNEL"] = before


def measures_sides(run: Run) -> dict[str, Callable[[], Side]]:
    qkv.set_num_threads(run.threads)
    q, k, v = (each[0, 0] for each in problems.arrays(MEASURED, "float32"))
    A, every = qkv.attend(q, k), passes.every_measure(MEASURED.n_q)
    passes_of: dict[str, Callable[[], object]] = {
        "A @ v": lambda: A @ v,
        "with output": lambda: passes.with_output(A, v),
        "first": lambda: passes.first_pass(A),
        "every": lambda: A.measure(*every),
    }

    def make(call: Callable[[], object]) -> Side:
        call()
        return Side(call)

    return {name: partial(make, call) for name, call in passes_of.items()}


def second_pass(turn: dict[str, float], _threads: int) -> float:
    """What every measure takes beyond lse and entropy, over A @ v."""
    return (turn["every"] - turn["first"]) / turn["A @ v"]


def call_sides(run: Run) -> dict[str, Callable[[], Side]]:
    return {"qkv": lambda: Side(peers.own(SMALL, problems.arrays(SMALL, "float32"), run.threads).call)}


def error_turns(dtype: str, run: Run) -> tuple[Turns, dict[str, str]]:
    """In the place of seconds, the root of the mean square of the error of a head, for each seed."""
    found: Turns = {}
    missing: dict[str, str] = {}
    shape = Shape(1, FULL.n_q, FULL.n_k, FULL.d)
    rng = np.random.default_rng(3)
    for _ in range(SEEDS):
        drawn = rng.standard_normal((3, 1, 1, shape.n_q, shape.d), dtype=np.float32)
        q, k, v = drawn.astype(problems.numpy_dtype(dtype), copy=False)
        right = problems.expected(shape, (q, k, v), np.arange(shape.n_q))
        for name, maker in (("qkv", peers.own), ("torch", peers.sdpa)):
            try:
                made = maker(shape, (q, k, v), run.threads)
                apart = made.answer(made.call()).astype(np.float64) - right
                found.setdefault(name, []).append(float(np.sqrt(np.mean(apart**2))))
            except Exception as error:  # noqa: BLE001 (as above)
                missing[name] = cause(error)
    return found, missing


def error(dtype: str) -> Group:
    table, row = "Error against float64", "root mean square, over that of torch SDPA; n = 2048, d = 64"
    goal = ERROR_GOALS[dtype]
    figure = Figure(table, row, dtype, "×", ("qkv", "torch"), partial(ratio, "qkv", "torch"), goal, at_most=True)
    return Group(f"error {dtype}", (figure,), partial(error_turns, dtype))


def measures_group() -> Group:
    table, sides = "Measures beside A @ v: n = 8192, d = 64, one head", ("A @ v", "first", "every")
    with_output = Figure(
        table, "output, entropy, max_logit at once, over A @ v", "float32", "×", ("with output", "A @ v"),
        partial(ratio, "with output", "A @ v"), FIRST_GOAL, at_most=True,
    )  # fmt: skip
    row = "the second pass of every measure, over A @ v"
    second = Figure(table, row, "float32", "×", sides, second_pass, SECOND_GOAL, at_most=True)
    plain = Figure(table, "A @ v itself", "float32", "ms", ("A @ v",), partial(scaled, "A @ v", 1e3))
    return Group("measures", (plain, with_output, second), partial(timed, measures_sides))


def groups() -> list[Group]:
    """All of them, in the order of the page."""
    every, plain = tuple(peers.PEERS), "The AVX2 build and the call"
    v3 = Figure(plain, f"GF/s of v3 over v4, {FULL}", "float32", "×", ("v3", "v4"), partial(ratio, "v4", "v3"), V3_GOAL)
    of = partial(scaled, "qkv", 1e6)
    row = "a call of qkv.attention on NumPy arrays (1, 1, 16, 64)"
    call = Figure(plain, row, "float32", "µs", ("qkv",), of, CALL_GOAL, at_most=True)
    return [
        attention(FULL, "float32", every, ("peak",)),
        attention(FULL, "bfloat16", every, ("peak",)),
        attention(WIDE, "float32", (), ("peak",)),
        attention(WIDE, "bfloat16", (), ("peak",)),
        attention(CAUSAL, "float32", every),
        attention(CAUSAL, "bfloat16", every),
        attention(SHORT, "float32", ("torch SDPA",), ("peak",)),
        attention(PATCHES, "float32", every, ("peak",)),
        attention(PATCHES, "bfloat16", every),
        attention(DECODE, "float32", every, ("read", "four places")),
        attention(DECODE, "bfloat16", every, ("read", "four places")),
        attention(GROUPED, "float32", (), ("read", "four places")),
        attention(GROUPED, "bfloat16", (), ("read", "four places")),
        measures_group(),
        Group("kernels", (v3,), partial(timed, kernels_sides)),
        Group("call", (call,), partial(timed, call_sides)),
        *(error(dtype) for dtype in ERROR_GOALS),
    ]
