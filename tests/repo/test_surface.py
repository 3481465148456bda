"""The public surface, name by name: what is added or taken away is a decision, and shows here."""

import importlib
import inspect
import subprocess
import sys
from types import ModuleType

import pytest

import qkv
from repo.tree import PACKAGE

ERRORS = [
    "ArgumentError", "DTypeError", "DenseError", "EmptyRowError", "MissingError", "QKVError", "ShapeError",
]  # fmt: skip

SURFACE = {
    "qkv": [
        "AttentionMap", "KVCache", "Kernel", "MultiHead", *ERRORS, "attend", "attention", "biases", "errors",
        "formula", "kernels", "masks", "measures", "merge", "progress", "rollout", "scores", "set_num_threads", "trace",
    ],
    "qkv.biases": ["Bias", "alibi", "alibi_slopes", "dense", "relative"],
    "qkv.cli": ["main"],
    "qkv.cost": [
        "Activations", "Cost", "DTYPES", "FeedForward", "Flip", "Kind", "Layer", "MODELS", "Model", "ModelCost",
        "Part", "ScoreCost", "additive", "dot", "flips", "kinds", "layer", "model", "visible_pairs",
    ],
    "qkv.draw": ["bars", "html", "png", "svg", "text"],
    "qkv.errors": ERRORS,
    "qkv.experiments": [
        "Estimate", "Gradient", "HeadSpread", "Saturation", "Sharpness", "Slope", "Split", "TEMPERATURES",
        "Temperature", "Variance", "WIDTHS", "gradient", "jacobian_norm", "saturation", "slope", "split", "spread",
        "temperature", "untrained", "variance",
    ],
    "qkv.formula": [
        "add_bias", "additive_score", "attention", "average", "biased_score", "bilinear_score", "blend", "cap",
        "causal", "dot_score", "entropy", "hide", "lse", "merge", "multi_head", "nonlocal_block", "output_shape",
        "param_count", "project_qkv", "qkv_shapes", "repeat_heads", "score", "split", "weight",
    ],
    "qkv.heads": ["KVCache", "MultiHead", "merge", "split"],
    "qkv.masks": ["Mask", "causal", "dense", "lengths", "segments", "window"],
    "qkv.measures": [
        "Distance", "Mass", "MaxLogit", "Measure", "Saturation", "Spread", "Top", "contribution", "diagonal",
        "distance", "duplicate", "effective_keys", "entropy", "image", "induction", "local", "lse", "mass",
        "max_logit", "output", "peak", "received", "saturation", "similar", "spread", "top",
    ],
    "qkv.models": ["NAMES", "Layer", "Model", "Pass", "Reader", "Run", "load"],
    "qkv.tracing": [
        "FEWEST", "FIGURES", "FOLDERS", "Figure", "Head", "Pretrained", "Trace", "pretrained", "table", "trace",
    ],
    "qkv.scores": ["Additive", "Bilinear", "Dot", "Score"],
    "qkv.torch": ["TensorMap", "join", "record"],
    "qkv.transformers": ["Call", "NAME", "Seen", "register", "watch"],
    "qkv.toy": [
        "FEATURES", "HEADS", "QUESTIONS", "Question", "SLICES", "TOKENS", "layer", "map", "names", "x",
    ],
}  # fmt: skip

IMPORTS_QKV = """
import sys
before = set(sys.modules)
import qkv
new = {name.split(".")[0] for name in set(sys.modules) - before}
print(*sorted(new - set(sys.stdlib_module_names) - {"numpy", "qkv"}))
"""


def public_modules() -> set[str]:
    """The package, and every module or folder in it whose name has no underscore in front."""
    paths = [path for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()]
    return {"qkv"} | {f"qkv.{path.stem}" for path in paths if not path.stem.startswith("_")}


def public_methods(kind: type) -> list[str]:
    """The public methods that a class of ours defines itself or overrides."""
    own = {name for base in kind.__mro__ if base.__module__.startswith("qkv") for name in vars(base)}
    return sorted(name for name in own if not name.startswith("_"))


def test_every_public_module_is_pinned_here() -> None:
    missing, gone = public_modules() - SURFACE.keys(), SURFACE.keys() - public_modules()
    assert not missing, f"{sorted(missing)} are public and not pinned: list their names in SURFACE"
    assert not gone, f"{sorted(gone)} are pinned in SURFACE and no longer there"


@pytest.mark.parametrize("name", SURFACE)
def test_the_public_names_of_a_module_are_the_pinned_ones(name: str) -> None:
    """`__all__` where there is one; else every function and class that the module itself defines."""
    module = importlib.import_module(name)
    own = [each for each, thing in vars(module).items() if getattr(thing, "__module__", "") == name]
    public = getattr(module, "__all__", [each for each in own if not each.startswith("_")])
    assert sorted(public) == sorted(SURFACE[name])


@pytest.mark.parametrize("name", SURFACE)
def test_every_public_name_exists_and_says_what_it_is(name: str) -> None:
    module = importlib.import_module(name)
    things = {each: getattr(module, each) for each in SURFACE[name]}
    for name_of_class, thing in list(things.items()):
        if isinstance(thing, type):
            things |= {f"{name_of_class}.{each}": getattr(thing, each) for each in public_methods(thing)}
    spoken = [each for each, thing in things.items() if callable(thing) or isinstance(thing, ModuleType)]
    silent = [each for each in spoken if not inspect.getdoc(things[each])]
    assert not silent, f"{silent} in {name} have no docstring"


def test_importing_qkv_pulls_in_numpy_only() -> None:
    command = [sys.executable, "-c", IMPORTS_QKV]
    heavy = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert not heavy, f"`import qkv` also imported {heavy}; import them where they are used"


def test_the_error_tree_has_one_root() -> None:
    classes = [getattr(qkv.errors, name) for name in ERRORS]
    assert all(issubclass(each, qkv.QKVError) for each in classes)
