"""The lab as a wheel: all of it inside, and a page served from it where the checkout is out of reach."""

import importlib.util
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest
from asking import Lab
from browsing import SITE, missing

import qkv

LAB = Path(__file__).parents[1]
PACKAGE = LAB / "src" / "qkv_lab"
BUILD = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
WHERE = "import qkv_lab; print(qkv_lab.__file__)"


def run(*words: str | Path, cwd: Path = LAB) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if importlib.util.find_spec("hatchling") is None:
        missing("what builds the wheel is not installed")
    if not (SITE / "index.html").exists():
        missing("the site is not built: make lab")
    folder = tmp_path_factory.mktemp("dist")
    done = run(sys.executable, "-c", BUILD, folder)
    assert done.returncode == 0, done.stderr
    return next(folder.glob("*.whl"))


def test_the_wheel_carries_pages_lessons_and_cards_and_no_leftovers(wheel):
    with zipfile.ZipFile(wheel) as packed:
        names = {name for name in packed.namelist() if ".dist-info/" not in name}
    wanted = {path.relative_to(PACKAGE.parent).as_posix() for path in PACKAGE.rglob("*") if path.is_file()}
    assert names == {name for name in wanted if "__pycache__" not in name}
    for name in ("site/index.html", "site/pyodide/pyodide.asm.wasm", "site/maps/index.json", "judge/__init__.py"):
        assert f"qkv_lab/{name}" in names
    assert any(name.startswith("qkv_lab/lessons/") for name in names)
    assert any(name.startswith("qkv_lab/cards/") for name in names)


def test_the_wheel_says_what_it_needs_and_under_which_licences_it_is(wheel):
    with zipfile.ZipFile(wheel) as packed:
        about = next(packed.read(name).decode() for name in packed.namelist() if name.endswith("/METADATA"))
        licences = {name.rsplit("/", 1)[-1] for name in packed.namelist() if "/licenses/" in name}
    needs = {re.split(r"[<>=~!]", each)[0] for each in re.findall(r"^Requires-Dist: (.*)", about, re.MULTILINE)}
    assert needs == {"qkv[cli]", "starlette", "uvicorn"}
    assert licences == {"LICENSE", "MPL-2.0.txt", "Python.txt"}


def test_pages_are_served_from_the_wheel_alone(wheel, tmp_path):
    """In an environment of its own; qkv and what the lab needs come from this one, the lab from the wheel."""
    venv.create(tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "-qq", "--disable-pip-version-check", "--python", python]
    subprocess.run([*pip, "install", "--no-deps", "--no-index", wheel], check=True)
    folder = next((tmp_path / "venv").glob("lib/python*/site-packages"))
    near = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), str(Path(qkv.__file__).parents[1])}
    # Paths alone: what those folders hold as an editable install is not followed.
    (folder / "near.pth").write_text("\n".join(sorted(near)))
    assert run(python, "-I", "-c", WHERE).stdout.startswith(str(folder))

    command = [python, "-I", "-m", "qkv.cli", "lab", "--no-browser", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as server:
        assert server.stdout is not None
        try:
            lab = Lab(re.findall(r"http://\S+", server.stdout.readline())[0])
            for name in ("index.html", "pyodide/pyodide.asm.wasm"):
                assert lab.ask(f"/{name}").body == (SITE / name).read_bytes()
            assert lab.map({"model": "induction", "layer": 0, "head": 0, "text": "ab"}).json["tokens"] == ["a", "b"]
        finally:
            server.terminate()


def test_without_built_pages_there_is_no_wheel(tmp_path):
    if importlib.util.find_spec("hatchling") is None:
        missing("what builds the wheel is not installed")
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        (tmp_path / name).write_bytes((LAB / name).read_bytes())
    (tmp_path / "src" / "qkv_lab").mkdir(parents=True)
    (tmp_path / "src" / "qkv_lab" / "__init__.py").touch()
    done = subprocess.run(
        [sys.executable, "-c", BUILD, tmp_path / "dist"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "make site" in done.stderr
    assert not (tmp_path / "dist").exists() or not list((tmp_path / "dist").glob("*.whl"))
