"""Why goals are missed, as far as it was measured: what `page.py` writes beneath a table whose figures miss them.

Shares of time are those of `perf record` on one thread of an AMD EPYC with AVX-512 and vdpbf16ps; others are from
alternating runs in processor time. A cause is written only while its figure misses.
"""

from typing import NamedTuple

from groups import Figure


class Cause(NamedTuple):
    """Of the figures whose table and row begin so, of this dtype or of all."""

    table: str
    row: str
    dtype: str
    said: str


CAUSES = [
    Cause(
        "Share of the peak",
        "(1, 8, 2048",
        "float32",
        "92 to 94 % of the time goes to the two products, the first with the exponentials of another tile among its"
        " instructions: of an exponential's twelve, five take the units that multiply, 5 cycles beside the 64 or "
        "128 of a score. What is kept of a row from tile to tile takes 2 %, bringing queries and outputs into order"
        " 1 %.",
    ),
    Cause(
        "Share of the peak",
        "(1, 8, 2048",
        "bfloat16",
        "The first product, with the exponentials of another tile between its instructions, takes 15 % longer"
        " than the second. Laying values side by side in pairs, and queries and outputs in order, takes 3 %, what is "
        "kept of a row from tile to tile 2 %, and rounding the outputs to bfloat16 behind the kernel 1 %.",
    ),
    Cause(
        "Share of the peak",
        "(1, 8, 512",
        "float32",
        "A query meets 256 keys on average, so bringing queries and outputs into order takes 7 % of the time. 3 % of"
        " what the products compute is hidden, for no vector of 16 queries ends in its middle, and the tile of the "
        "diagonal has its exponentials behind its products.",
    ),
    Cause(
        "Share of the peak",
        "(1, 12, 196",
        "float32",
        "196 queries fill 13 vectors of 16, so 6 % of the products are of no query. Bringing queries and outputs into"
        " order takes 7 % of the time; of two full tiles and four keys behind them, half have their exponentials "
        "behind their products and not among them.",
    ),
    Cause(
        "Beside other libraries",
        "torch SDPA",
        "",
        "It misses by what qkv lacks to the peak: see the table of peaks.",
    ),
    Cause(
        "Beside other libraries: (1, 12, 196",
        "",
        "float32",
        "It misses by what qkv lacks to the peak, in vectors that 196 queries do not fill and in bringing "
        "them into order: see the table of peaks.",
    ),
    Cause(
        "Share of reading alone",
        "(1, 32:8",
        "float32",
        "Four rows take four multiply-adds for a line of the cache, and loads of queries or weights between "
        "them, so that few lines are on their way at once: a loop that does no more than that comes to 42 to 55 %"
        " of reading where it reads in order. So each line is asked for ahead; what is asked for so comes at 23 "
        "to 27 GB/s, where reading in order has 31 to 35.",
    ),
    Cause(
        "Share of reading alone",
        "(1, 32:8",
        "bfloat16",
        "Four rows take eight multiply-adds for a line of the cache, 8 cycles where reading takes 7; widening, "
        "and adding up the lanes of each score, come on top. Out of the second cache, where nothing waits for "
        "memory, keys and values are taken at 20 GB/s.",
    ),
    Cause(
        "Share of reading alone",
        "",
        "",
        "A loop that reads keys and values in turn, 4 or 8 KB of each, is as fast as one that only reads, within"
        " 7 %, with one or two multiply-adds a line. It comes to 80 to 92 % where two of them load their factors, "
        "as those of one query do in 16 bits. The kernel adds up the lanes of each score besides, and takes "
        "exponentials.",
    ),
    Cause(
        "Measures beside",
        "output, entropy",
        "",
        "Entropy takes one more multiply-add for each weight, and the key of the largest score is looked for in each "
        "tile that has a larger one than all before: together 2 %.",
    ),
    Cause(
        "Measures beside",
        "the second pass",
        "",
        "The weights alone, which are the scores again and their exponentials, are 0.55 of A @ v. Beside them the"
        " sums that rows, pictures and distances share take 0.02, what is left of the two pictures and of distance"
        " 0.03 each, top(8) 0.05, labels, received, pairs of tokens and bands 0.04; NumPy around the walk takes 0.035,"
        " memory for results that is touched for the first time 0.02.",
    ),
    Cause(
        "The AVX2 build",
        "a call of",
        "",
        "It is as far from its goal as its quartiles are apart.",
    ),
]


def cause_of(figure: Figure) -> str:
    """The first cause that is told of a figure, or that none is known."""
    for cause in CAUSES:
        begins = figure.table.startswith(cause.table) and figure.row.startswith(cause.row)
        if begins and cause.dtype in ("", figure.dtype):
            return cause.said
    return "Its cause was not measured."
