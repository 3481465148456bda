"""One walk of the kernel over the weights, with everything that is wanted of it: a want is a value, and has a result.

What a head has as a whole, a column or a picture, comes from the kernel for stripes of its rows, and is added here in
order: so it has the same bits on any number of threads.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qkv import _kernel
from qkv._cells import mend_rows, row_results
from qkv._kernel import core
from qkv._problem import Problem
from qkv._progress import Work
from qkv._typing import Array
from qkv._visible_counts import Counts, edges

TILE = 48  # keys that the kernel weighs at once: kScanTile of csrc/qkv/scan.h
LAST = 128  # marks the last key of a label in a tile: kLastOfLabel there
BLOCK = 48  # rows that it has in hand at most: stripes are whole blocks
STRIPES = 32  # of a head, at most
MEMORY = 1 << 25  # bytes of stripes at once, where more than one head has them


@dataclass(frozen=True)
class Here:
    """The heads (flat) that are walked at once, and what a want needs to know of them."""

    problem: Problem
    heads: Array

    @property
    def n_q(self) -> int:
        return self.problem.shape[-2]

    @property
    def n_k(self) -> int:
        return self.problem.shape[-1]

    @property
    def stripe(self) -> int:
        """Rows of a stripe: decided by the shape alone."""
        most = max(1, min(STRIPES, 2 * MEMORY // max(1, 4 * self.n_k)))
        return BLOCK * max(1, -(-self.n_q // (BLOCK * most)))

    @property
    def starts(self) -> Array:
        """The first row of each stripe."""
        return np.arange(0, self.n_q, self.stripe)

    def rows(self, *shape: int, fill: float = 0, dtype: Any = None) -> Array:
        """(heads, n_q, …), filled."""
        return np.full((len(self.heads), self.n_q, *shape), fill, self.problem.work if dtype is None else dtype)

    def offsets(self, offset: int | Array | None) -> Array:
        """The key position of query 0 in each head: (heads,)."""
        if offset is None:
            return np.full(len(self.heads), self.n_k - self.n_q, np.int64)
        batch = self.problem.shape[:-3]
        return np.broadcast_to(offset, batch).reshape(-1)[self.entries].astype(np.int64)

    @property
    def entries(self) -> Array:
        """The batch entry of each head, flat: (heads,)."""
        return self.heads // max(1, self.problem.n_heads)


class Want:
    """Something that is found on the walk. Subclasses compare by value where they can, so that one is found once."""

    weighs = True  # whether the weights have to be walked for it

    def bytes_of_stripes(self, here: Here) -> int:
        """Of one head."""
        return 0

    def begin(self, here: Here, scan: Any) -> Any:
        """Make the arrays and tell the kernel's scan of them -> what `end` needs."""
        raise NotImplementedError

    def end(self, here: Here, begun: Any) -> Any:
        """The result, (heads, …), from what `begin` gave."""
        return begun


@dataclass(frozen=True)
class Row(Want):
    """Of each row "mass" Σ w, "squares" Σ w², "slope" Σ w (1 − w), or "largest" max w: (heads, n_q)."""

    name: str


ROW_NAMES = ("mass", "squares", "slope", "largest")


@dataclass(frozen=True)
class Sum(Want):
    """One of `_kernel.ROWS`, from the pass over the scores: (heads, n_q)."""

    name: str
    weighs = False


@dataclass(frozen=True, eq=False)
class Output(Want):
    """A @ v, in the caller's library and dtype: (*lead, n_q, d_v). v: as `_kernel.apply` takes it."""

    v: Any
    weighs = False


@dataclass(frozen=True)
class Visible(Want):
    """How many cells are visible, by "rows" (heads, n_q), "keys" (heads, n_k) or pixels (heads, height, width)."""

    of: str | tuple[int, int]
    weighs = False


@dataclass(frozen=True)
class Received(Want):
    """Σ_i w_ij, float64: (heads, n_k)."""

    def bytes_of_stripes(self, here: Here) -> int:
        return len(here.starts) * here.n_k * here.problem.work.itemsize

    def begin(self, here: Here, scan: Any) -> Array:
        parts = np.zeros((len(here.heads), len(here.starts), here.n_k), here.problem.work)
        scan.received(parts)
        return parts

    def end(self, here: Here, begun: Array) -> Array:
        return np.asarray(begun.sum(axis=1, dtype=np.float64))


@dataclass(frozen=True)
class Picture(Want):
    """Σ or max of w over each pixel, float64: (heads, height, width)."""

    height: int
    width: int
    pool: str

    def bytes_of_stripes(self, here: Here) -> int:
        return len(here.starts) * self.width * 8

    def begin(self, here: Here, scan: Any) -> tuple[Array, Array]:
        whole = np.zeros((len(here.heads), self.height, self.width))
        carried = np.zeros((len(here.heads), len(here.starts), self.width))
        scan.picture(edges(here.n_k, self.width), self.height, self.width, self.pool == "max", whole, carried)
        return whole, carried

    def end(self, here: Here, begun: tuple[Array, Array]) -> Array:
        whole, carried = begun
        join = np.maximum if self.pool == "max" else np.add
        pixel, before = ((here.starts - back) * self.height // here.n_q for back in (0, 1))
        for stripe in np.flatnonzero(pixel == before):  # it begins within a pixel row
            row = whole[:, pixel[stripe]]
            join(row, carried[:, stripe], out=row)
        return whole


@dataclass(frozen=True, eq=False)
class Labels(Want):
    """Σ w over the keys of each label: (heads, n_q, n). label: (n_k,) of 0 … n − 1, or −1 for a key that is none."""

    label: Array
    n: int

    def begin(self, here: Here, scan: Any) -> Array:
        label, order = by_tile(self.label)
        share = here.rows(self.n)
        scan.labels(label, order, self.n, share)
        return share


@dataclass(frozen=True, eq=False)
class Band(Want):
    """Σ w over aligned(i) + low <= j <= aligned(i) + high: (heads, n_q). offset: as masks have it."""

    offset: Any
    low: int
    high: int

    def begin(self, here: Here, scan: Any) -> Array:
        mass = here.rows()
        scan.band(here.offsets(self.offset), self.low, self.high, mass)
        return mass


@dataclass(frozen=True, eq=False)
class Pairs(Want):
    """Σ w over the keys j < aligned(i) + reach whose token is that of the key at aligned(i): (heads, n_q).

    token: (…, n_k) from 0, the leading axes those of the batch. by: the same, what stands for each key, −1 for nothing.
    """

    token: Array
    by: Array
    offset: Any
    reach: int

    def begin(self, here: Here, scan: Any) -> Array:
        batch = here.problem.shape[:-3]
        shape = (*batch, here.n_k)
        token, by = (np.broadcast_to(each, shape).reshape(-1, here.n_k) for each in (self.token, self.by))
        offset, entries, n_q = here.offsets(self.offset), here.entries, here.n_q
        own = np.full((len(here.heads), n_q), -2, np.int32)
        for head, entry in enumerate(entries):
            first, last = max(0, -int(offset[head])), min(n_q, here.n_k - int(offset[head]))
            if first < last:
                own[head, first:last] = token[entry, first + offset[head] : last + offset[head]]
        mass = here.rows()
        scan.pairs(
            np.ascontiguousarray(by, np.int32), entries.astype(np.int64) * here.n_k, own,
            np.arange(len(own), dtype=np.int64) * n_q, offset, self.reach, mass,
        )  # fmt: skip
        return mass


@dataclass(frozen=True, eq=False)
class Distances(Want):
    """Mean and variance of aligned(i) − j, (heads, n_q), and the weight by powers of two, (heads, ahead + 1 + back)."""

    offset: Any
    absolute: bool
    ahead: int
    back: int

    def begin(self, here: Here, scan: Any) -> tuple[Array, ...]:
        mean, variance = here.rows(dtype=np.float64), here.rows(dtype=np.float64)
        histogram = np.zeros((len(here.heads), len(here.starts), self.ahead + 1 + self.back))
        scan.distances(
            here.offsets(self.offset),
            self.absolute,
            mean,
            variance,
            histogram,
            self.ahead,
            self.back,
        )
        return mean, variance, histogram

    def end(self, here: Here, begun: Any) -> tuple[Array, ...]:
        mean, variance, histogram = begun
        return mean, variance, histogram.sum(axis=1)


@dataclass(frozen=True)
class Top(Want):
    """The n largest weights and their keys, largest first, −1 where there is none: (heads, n_q, n) each."""

    n: int

    def begin(self, here: Here, scan: Any) -> tuple[Array, ...]:
        weight, key = here.rows(self.n, fill=-1), here.rows(self.n, fill=-1, dtype=np.int64)
        scan.top(self.n, weight, key)
        return weight, key


def by_tile(label: Array) -> tuple[Array, Array]:
    """Labels as the kernel takes them, and of each tile the places of its keys in the order of their labels."""
    padded = np.full(-(-len(label) // TILE) * TILE, np.iinfo(np.int32).max, np.int32)
    padded[: len(label)] = label
    tiles = padded.reshape(-1, TILE)
    order = tiles.argsort(axis=-1, kind="stable")
    last = np.diff(np.take_along_axis(tiles, order, axis=-1), axis=-1, append=-2) != 0
    return padded, np.ascontiguousarray(order + LAST * last, np.uint8)


def scan(problem: Problem, lead: Array, wants: Sequence[Want]) -> list[Any]:
    """The results of these wants for the heads of `lead` (flat indices of any shape), in their order, heads flat."""
    form, heads, wanted = _kernel.form(problem), lead.reshape(-1), list(dict.fromkeys(wants))
    rows = lead.size * problem.shape[-2]
    work = Work(rows)
    weighing = [want for want in wanted if want.weighs]
    found, sums = _first_pass(problem, form, lead, wanted, work, rows // (2 if weighing else 1))
    counts = Counts(problem, form, heads)
    found |= {want: counts.of(want.of) for want in wanted if isinstance(want, Visible)}
    if weighing:
        one = Here(problem, heads[:1])
        together = max(1, MEMORY // max(1, sum(want.bytes_of_stripes(one) for want in weighing)))
        parts = []
        with work.part(rows - rows // 2):
            inner = Work(rows)
            for at in range(0, len(heads), together):
                part = slice(at, min(at + together, len(heads)))
                here = Here(problem, heads[part])
                with inner.part(len(here.heads) * here.n_q):
                    parts.append(_second_pass(here, form, weighing, sums["peak"][part], sums["total"][part]))
        found |= {want: _joined([each[want] for each in parts]) for want in weighing}
    return [found[want] for want in wants]


def _joined(parts: list[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], tuple):
        return tuple(np.concatenate(each) for each in zip(*parts, strict=True))
    return np.concatenate(parts)


def _first_pass(
    problem: Problem, form: _kernel.Form, lead: Array, wants: list[Want], work: Work, rows: int
) -> tuple[dict[Want, Any], dict[str, Array]]:
    """What a pass over the scores finds, with A @ v where it is wanted, and the sums that weights are taken with."""
    found: dict[Want, Any] = {}
    names = [want.name for want in wants if isinstance(want, Sum)]
    names += ["peak", "total"] if any(want.weighs for want in wants) else []
    outputs = [want for want in wants if isinstance(want, Output)]
    every, heads = slice(0, problem.shape[-2]), lead.reshape(-1)
    with work.part(rows):
        if outputs and names:
            first, asked = outputs.pop(0), tuple(dict.fromkeys((*names, "total")))
            out, *results = _kernel.run(problem, form, lead, first.v, asked)
            out = problem.library.xp.reshape(out, (*lead.shape, *out.shape[1:]))
            found[first] = _kernel.settle(problem, lead, first.v, out, finite=False)
            sums = dict(zip(asked, results, strict=True))
            mend_rows(problem, heads, every, sums)
        else:
            sums = row_results(problem, form, heads, every, tuple(names)) if names else {}
        for want in outputs:
            found[want] = _kernel.apply(problem, lead, want.v)
    return found | {want: sums[want.name] for want in wants if isinstance(want, Sum)}, sums


def _second_pass(here: Here, form: _kernel.Form, wants: list[Want], peak: Array, total: Array) -> dict[Want, Any]:
    """What one walk over the weights of some heads finds."""
    described, task = _kernel.Described(here.problem, form, here.heads, slice(0, here.n_q)), core.Scan(here.stripe)
    by_name = {want.name: here.rows() for want in wants if isinstance(want, Row)}
    if by_name:
        task.rows(*(by_name.get(name) for name in ROW_NAMES))
    begun = {want: want.begin(here, task) for want in wants if not isinstance(want, Row)}
    core.scan(_kernel.chosen(), described.problem, np.ascontiguousarray(peak), np.ascontiguousarray(total), task)
    found: dict[Want, Any] = {want: by_name[want.name] for want in wants if isinstance(want, Row)}
    # what a want has in stripes is let go of before the next one's whole is made
    return found | {want: want.end(here, begun.pop(want)) for want in list(begun)}
