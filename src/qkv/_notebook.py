"""What a notebook shows for a map: a picture of each head, small enough to look at and quick enough to wait for."""

import html
import math
from typing import Any

import numpy as np

from qkv import _arrays, draw
from qkv._typing import Array

WHOLE_CELLS = 4_000_000  # a map is drawn whole up to this size, a larger one from a sample of its queries
WIDTH = 640  # pixels of a picture, so that two stand beside each other in a wide window
HEADS = 4  # pictures beside each other that still can be read
SIDE = 64  # cells of a picture a side: some 400 kB of SVG, where 96 would be twice that


def page(attention_map: Any) -> str:
    """The repr and a picture of up to four heads, as HTML without script or outside request."""
    lead = attention_map.shape[:-2]
    n_heads = math.prod(lead)
    shown = min(HEADS, n_heads)
    figures = []
    for flat in range(shown):
        head = tuple(int(i) for i in np.unravel_index(flat, lead)) if lead else ()
        title = f"head {head[0] if len(head) == 1 else head}" if head else None
        figures.append(f'<div style="max-width:{WIDTH}px">{_figure(attention_map[head], title, shown)}</div>')
    more = f"<p>{shown} of {n_heads} heads; index the map for others, e.g. A[{', '.join(['-1'] * len(lead))}].</p>"
    pictures = f'<div style="display:flex;flex-wrap:wrap;gap:1em">{"".join(figures)}</div>'
    return f"<div><code>{html.escape(repr(attention_map))}</code>{pictures}{more if n_heads > shown else ''}</div>"


def _figure(head: Any, title: str | None, shown: int) -> str:
    """One head: whole where all the heads shown have at most 4 M cells together, else from a sample of its queries."""
    n_q, n_k = head.shape
    if max(n_q, n_k) <= SIDE:
        return draw.html(_arrays.view(head.image(SIDE), "weights"), title=title)
    # the square root of a weight tells 0.001 from 0.01 beside a weight of 1, which long maps need
    if head.size * shown <= WHOLE_CELLS:
        cells = _arrays.view(head.image(SIDE, pool="max"), "weights")
        caption = f"Each cell drawn is the largest of those it stands for, in a map of {n_q} × {n_k} weights."
        labels = _positions(head.shape, cells.shape)
        return draw.html(cells, *labels, title=title, caption=caption, contrast="root")
    rows = _sample(n_q, max(8, min(SIDE, WHOLE_CELLS // (n_k * shown))))
    scores = _arrays.view(head.scores("biased")[rows], "scores")
    weights = np.where(np.isneginf(scores), np.nan, _arrays.view(head[rows], "weights").astype(np.float32))
    caption = (
        f"A sample: {len(rows)} evenly spaced queries of {n_q:,}, each exact over all {n_k:,} keys; "
        "the whole map is pooled by A.image(512)."
    )
    return draw.html(weights, [str(i) for i in rows], title=title, caption=caption, contrast="root")


def _sample(size: int, wanted: int) -> Array:
    return np.unique(np.linspace(0, size - 1, min(size, wanted)).round().astype(np.int64))


def _positions(shape: tuple[int, int], drawn: tuple[int, int]) -> list[list[str] | None]:
    """The first position that each drawn row and column stands for, as labels; None where each stands for its own."""
    return [
        None if size == count else [str(-(-p * size // count)) for p in range(count)]
        for size, count in zip(shape, drawn, strict=True)
    ]
