"""What the experiments found, as pages of a terminal: a table with standard errors, a small plot, what it says."""

from collections.abc import Sequence
from statistics import median

from qkv import draw
from qkv.cli._table import figure, plot, table
from qkv.cli._terminal import Colour, wrap
from qkv.experiments import Gradient, HeadSpread, Saturation, Split, Temperature, Variance

RAW, SCALED = "● raw q·k", "○ q·k / √d_k"


def variance_page(found: Sequence[Variance], width: int) -> str:
    """Footnote 4, a line for each width."""
    rows = [[str(at.d_k), *map(figure, (at.product_mean, at.product, at.raw, at.scaled))] for at in found]
    return "\n\n".join(
        [
            table(
                ["d_k", "mean", "variance", "q·k", "q·k / √d_k"],
                rows,
                {"": 1, "one product q_c · k_c": 2, "variance of the score": 2},
            ),
            wrap(
                "Each product has mean 0 and variance 1; variances of independent terms add, so q·k has variance d_k; "
                "divided by √d_k it has variance 1 at every width.",
                width,
            ),
        ]
    )


def saturation_page(found: Sequence[Saturation], width: int) -> str:
    """Largest weight and entropy by width, raw and scaled."""
    rows = [
        [str(at.d_k), *map(figure, (at.raw.largest, at.scaled.largest, at.raw.entropy, at.scaled.entropy))]
        for at in found
    ]
    curves = {RAW: [at.raw.largest.value for at in found], SCALED: [at.scaled.largest.value for at in found]}
    return "\n\n".join(
        [
            table(
                ["d_k", "raw", "scaled", "raw", "scaled"],
                rows,
                {"": 1, "mean largest weight": 2, "mean entropy, nats": 2},
            ),
            "Mean largest weight\n" + plot([str(at.d_k) for at in found], curves, high=1.0, across="d_k"),
            wrap(
                "Raw, one key takes nearly all before anything was learned, and the more so the wider the keys; "
                "divided by √d_k, the rows are alike at every width.",
                width,
            ),
        ]
    )


def temperature_page(found: Sequence[Temperature], width: int) -> str:
    """Largest weight, entropy and slope by temperature."""
    rows = [[f"{at.temperature:g}", *map(figure, (at.sharpness.largest, at.sharpness.entropy, at.top))] for at in found]
    curve = {"● mean largest weight": [at.sharpness.largest.value for at in found]}
    return "\n\n".join(
        [
            table(["temperature", "mean largest weight", "mean entropy, nats", "mean p(1−p)"], rows),
            plot([f"{at.temperature:g}" for at in found], curve, high=1.0, across="× √d_k"),
            wrap(
                f"Cold, the loudest key has all; hot, each of {found[0].n_keys} has 1/{found[0].n_keys}. p(1−p), the "
                "slope at the largest weight, is highest in between.",
                width,
            ),
        ]
    )


def gradient_page(found: Sequence[Gradient], width: int) -> str:
    """What gets through the softmax, and what reaches the query, by width."""
    heads = ["d_k", "raw", "scaled", "raw", "scaled"]
    top = [
        [str(at.d_k), *map(figure, (at.raw.top, at.scaled.top, at.raw.top_median, at.scaled.top_median))]
        for at in found
    ]
    through = [
        [str(at.d_k), *map(figure, (at.raw.query, at.scaled.query, at.raw.query_median, at.scaled.query_median))]
        for at in found
    ]
    curves = {RAW: [at.raw.top_median.value for at in found], SCALED: [at.scaled.top_median.value for at in found]}
    return "\n\n".join(
        [
            table(heads, top, {"": 1, "p(1−p), mean": 2, "p(1−p), median": 2}),
            "Median p(1−p) at the largest weight\n"
            + plot([str(at.d_k) for at in found], curves, high=0.25, across="d_k"),
            table(heads, through, {"": 1, "‖∂weight/∂q‖, mean": 2, "‖∂weight/∂q‖, median": 2}),
            wrap(
                "p(1−p) is the derivative of a weight by its own score. Raw and wide, the typical query gets next to "
                "no gradient, and the few that are undecided get a large one: the mean hides it, the median does not.",
                width,
            ),
        ]
    )


def split_page(found: Sequence[Split], width: int) -> str:
    """Slices beside the full width."""
    rows = [
        [str(at.n_heads), str(at.d_k), *map(figure, (at.largest, at.entropy, at.distinct, at.disagreement))]
        for at in found
    ]
    bars = draw.bars(
        [round(at.distinct.value, 2) for at in found],
        [f"{at.n_heads} heads" if at.n_heads > 1 else "1 head" for at in found],
        title="Different keys put first by the heads of one query",
        colour="none",
        width=min(width, 72),
    )
    gap = max(at.gap for at in found)
    return "\n\n".join(
        [
            table(["heads", "d_k", "largest", "entropy", "keys put first", "disagreement"], rows),
            bars,
            wrap(
                "Each head is as decided as the full width, and the heads look at different keys; disagreement is "
                "their Jensen–Shannon divergence, in nats. One softmax has one opinion. The q·k of the slices add up "
                f"to the full q·k, with a largest difference of {gap:.0e}.",
                width,
            ),
        ]
    )


def spread_page(
    found: dict[str, list[tuple[HeadSpread, ...]]], missing: dict[str, str], colour: Colour, width: int
) -> str:
    """The spread of scores, a line for each layer of each model, between its calmest and its wildest head."""
    rows, names, middles = [], [], []
    for name, layers in found.items():
        for at, heads in enumerate(layers):
            ordered = sorted(heads, key=lambda each: each.spread.value)
            least, most = ordered[0], ordered[-1]
            middle = median(each.spread.value for each in heads)
            label = f"{name} {at}" if len(layers) > 1 else name
            needed = f"{least.needed:.1f} to {most.needed:.1f}"
            ends = (f"{each.head}: {figure(each.spread)}" for each in (least, most))
            rows.append([label, f"{least.divisor:.2f}", *ends, f"{middle:.2f}", needed])
            names.append(label)
            middles.append(round(middle, 2))
    trained = [
        head.spread.value for name, layers in found.items() if name != "untrained" for heads in layers for head in heads
    ]
    return "\n\n".join(
        [
            table(["layer", "√d_k", "least (head: nats)", "most (head: nats)", "median", "for spread 1"], rows),
            draw.bars(middles, names, title="Median spread of the scores, nats", colour=colour, width=min(width, 72)),
            wrap(
                "The scores of a row are to have standard deviation 1. Before training, 1/√d_k sees to that; these "
                f"trained heads run from {min(trained):.2f} to {max(trained):.2f}. √d_k is the scale to start from, "
                "not a law.",
                width,
            ),
            *(f"{name} is left out: {why}" for name, why in missing.items()),
        ]
    )
