"""`pip install` of the sdist where there are Python and a C++ compiler only; and what Clang says of the kernels."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

from repo.tree import ROOT

COMPILER = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
CLANG = next(filter(None, map(shutil.which, ("clang++", *(f"clang++-{n}" for n in range(30, 13, -1))))), None)
BUILDERS = {"cmake", "cmake3", "ninja", "ninja-build", "samu"}
FLAGS = re.compile(r'set_source_files_properties\((csrc\S+) PROPERTIES COMPILE_OPTIONS\s+"(.*?)"\)')


def run(*words: str | Path, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command, with what it prints; what was set for this process's own tests is not handed on."""
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "QKV_KERNEL")}
    return subprocess.run(words, cwd=cwd, env=env | environment, capture_output=True, text=True, check=False)


def commands(path: Path) -> Path:
    """Every command of this machine but those that drive a build."""
    path.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for command in Path(folder).glob("*"):
            if command.name not in BUILDERS and not (path / command.name).exists():
                (path / command.name).symlink_to(command)
    return path


@pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")
def test_the_sdist_installs_with_its_kernels_where_only_a_compiler_is(tmp_path: Path) -> None:
    """CMake and ninja are hidden from the build: pip has to fetch them, as the rest, from the package index."""
    pytest.importorskip("scikit_build_core", reason="what makes the sdist is not installed")
    make = "import sys; from scikit_build_core.build import build_sdist; build_sdist(sys.argv[1])"
    assert (made := run(sys.executable, "-c", make, tmp_path)).returncode == 0, made.stderr
    (sdist,) = tmp_path.glob("*.tar.gz")

    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
    pins = str(ROOT / "constraints.txt")
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    index = run(*pip, "download", "--no-deps", "-c", pins, "-d", tmp_path / "index", *wanted)
    if index.returncode:
        pytest.skip(f"there is no package index: {index.stderr.strip().splitlines()[-1]}")

    venv.create(tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    bare = {"PATH": str(commands(tmp_path / "commands")), "PIP_CONSTRAINT": pins, "PIP_BUILD_CONSTRAINT": pins}
    done = run(*pip, "--python", python, "install", sdist, **bare)
    assert done.returncode == 0, done.stdout + done.stderr
    names = "from importlib.metadata import distributions; print(*sorted(each.name for each in distributions()))"
    assert run(python, "-I", "-c", names).stdout == "numpy qkv\n"
    works = run(python, "-I", ROOT / "tests" / "installed.py", cwd=tmp_path)
    assert works.returncode == 0, works.stderr


@pytest.mark.skipif(CLANG is None, reason="there is no clang++")
def test_clang_compiles_the_kernels_without_a_warning() -> None:
    """`make sanitize CXX=clang++` runs what it makes of them."""
    flags = dict(FLAGS.findall((ROOT / "CMakeLists.txt").read_text(encoding="utf-8")))
    assert flags, "CMakeLists.txt has no line of flags"
    for path in sorted((ROOT / "csrc" / "qkv").rglob("*.cpp")):
        own = flags.get(path.relative_to(ROOT).as_posix(), "").split(";")
        if own != [""] and os.uname().machine != "x86_64":
            continue
        always = ["-std=gnu++17", "-O1", "-Wall", "-Wextra", "-Werror", "-o", os.devnull, "-c"]
        done = run(str(CLANG), *always, *filter(None, own), path)
        assert done.returncode == 0, f"{path.name}: {done.stderr}"
