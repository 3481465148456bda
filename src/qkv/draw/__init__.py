"""Views of a map: plain weights and labels in, `str` or `bytes` out. They know no map, print nothing, open no file.

    text(weights, rows, columns)   lines for a terminal           bars(values, labels)   one list as bars in a terminal
    png(weights, rows, columns)    a picture, needs Pillow
    svg(weights, rows, columns)    a vector picture that says each weight on hover
    html(weights, rows, columns)   that picture in a figure with a caption, or as a page

`weights` is (n_q, n_k), a row for each query; NaN, −inf and whatever `visible` leaves out has nothing to show.
"""

from qkv.draw.bars import bars
from qkv.draw.html import html
from qkv.draw.png import png
from qkv.draw.svg import svg
from qkv.draw.text import text

__all__ = ["bars", "html", "png", "svg", "text"]
