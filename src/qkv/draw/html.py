"""A map as HTML: the SVG in a figure with a caption, alone or as a page of its own."""

import html as _html
from typing import Any

from qkv.draw import _grid, _labels
from qkv.draw._grid import Contrast, Labels, Limits
from qkv.draw.svg import describe, figure

__all__ = ["html"]

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>body{{margin:2rem;font-family:system-ui,sans-serif;background:Canvas;color:CanvasText}}
.qkv-map rect:hover{{stroke:currentColor;stroke-width:.08}}</style>
</head>
<body>
{body}
</body>
</html>
"""


def html(
    weights: Any,
    rows: Labels = None,
    columns: Labels = None,
    *,
    visible: Any = None,
    title: str | None = None,
    subtitle: str | None = None,
    caption: str | None = None,
    page: bool = False,
    axes: tuple[str, str] = ("queries", "keys"),
    numbers: bool = True,
    limits: Limits = None,
    contrast: Contrast = "linear",
) -> str:
    """A map as an HTML `<figure>`: weights (n_q, n_k), n_q row labels, n_k column labels; `page=True`: a whole page.

    The picture is that of `svg`, drawn in the text colour of the page around it, so that it can be read in light and in
    dark mode, in a notebook too. `caption` stands below it, after a sentence that says what is drawn. Nothing is
    loaded and nothing runs: no script, no link, no font file. Every token is text, never markup. Raises ShapeError,
    DTypeError, ArgumentError.
    """
    checked = _grid.check(weights, rows, columns, visible=visible, limits=limits, contrast=contrast)
    picture = figure(checked, axes, title, subtitle, numbers=numbers, style="")
    said = [describe(checked, axes), *(_labels.line(part, joined=True) for part in (caption or "").split("\n") if part)]
    body = (
        f'<figure class="qkv-figure" style="margin:0;overflow-x:auto">{picture}'
        f'<figcaption style="font:13px/1.5 system-ui,sans-serif;opacity:.75;max-width:60em">'
        f"{'<br>'.join(map(_html.escape, said))}</figcaption></figure>"
    )
    name = _labels.line(title or said[0], joined=True)
    return PAGE.format(title=_html.escape(name), body=body) if page else body
