"""`qkv lab --export`: the whole site as static files, for any server and any folder of it, and nothing lost by it."""

import hashlib
import http.client
import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from browsing import SITE, missing, served

from command import needs_minilm, refused, run
from qkv.models import induction, minilm
from qkv_lab import maps, serve
from qkv_lab.export import LIST, PART, export

WEB = Path(__file__).parents[1] / "web"
TEXTS = {".css", ".html", ".js", ".json", ".mjs", ".svg"}
# What a page, a style sheet or a module asks its server for.
ASKS = {
    ".html": re.compile(r"(?:href|src)=\"([^\"#?]+)[^\"]*\""),
    ".css": re.compile(r"url\((?!data:|#)[\"']?([^)\"']+)"),
    ".js": re.compile(r"(?:from|import)\s*\(?\s*[`\"'](\.{1,2}/[^`\"'$]+)[`\"']"),
}
FOREIGN = re.compile(
    r"(?:\bfetch\(|\bimport\(|\bfrom\s*|url\(|\bsrc=|Worker\(|sendBeacon\(|EventSource\(|WebSocket\(|<link[^>]*href=)"
    r"\s*[`\"']?(?:https?:|wss?:)?//[^`\"'\s)]+"
)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (SITE / "index.html").exists():
        missing("the site is not built: make lab")
    folder = tmp_path_factory.mktemp("class") / "deep" / "lab"
    export(folder)
    return folder


@pytest.fixture(scope="module")
def connection(exported: Path) -> Iterator[http.client.HTTPConnection]:
    """To a plain file server, with the export in a folder of a folder."""
    with served(exported.parents[1]) as address:
        connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=20)
        yield connection
        connection.close()


@pytest.fixture
def small(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site of two files to export, where what matters is what was there before."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "index.html").write_text("home")
    (folder / "assets").mkdir()
    (folder / "assets" / "index-abcdefgh.js").write_text("script")
    monkeypatch.setattr(serve, "SITE", folder)
    monkeypatch.setattr(maps, "record", lambda _: ["induction"])
    return folder


def files(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def asked(folder: Path) -> Iterator[tuple[Path, str]]:
    """Each file that names another, and the name."""
    for path in folder.rglob("*"):
        if path.suffix in ASKS and "pyodide" not in path.parts:
            for name in ASKS[path.suffix].findall(path.read_text(encoding="utf-8")):
                yield path, name


def test_an_export_is_the_site_and_its_list(exported):
    found = files(exported)
    names = {name for name in files(SITE) if not name.startswith("maps/")}
    assert all(found[name] == (SITE / name).read_bytes() for name in names)
    assert {name for name in found if not name.startswith("maps/")} == names | {LIST, ".nojekyll"}
    said = json.loads(found.pop(LIST))
    assert said["files"] == {name: hashlib.sha256(content).hexdigest() for name, content in found.items()}


def test_every_link_is_relative_and_leads_to_a_file(exported):
    links = list(asked(exported))
    assert len(links) > 100
    for path, name in links:
        if not name.startswith("https://"):  # a link that a reader may follow to a paper; nothing loads it
            assert not name.startswith("/"), (path.name, name)
            assert (path.parent / name).is_file(), (path.name, name)
        else:
            assert path.suffix == ".html" and f'<a href="{name}' in path.read_text(encoding="utf-8")


def test_no_file_asks_for_anything_from_outside(exported):
    for path in exported.rglob("*"):
        if path.suffix in TEXTS and "pyodide" not in path.parts:
            found = FOREIGN.findall(path.read_text(encoding="utf-8"))
            assert not found, (path.name, found[:3])


def test_the_search_for_what_is_foreign_finds_it():
    for text in ('fetch("https://a.b/c")', "url(//a.b/c)", 'import("http://a.b")', '<link rel=x href="https://a.b">'):
        assert FOREIGN.search(text), text
    for text in ('href="https://arxiv.org/abs/1"', 'fetch("./maps/index.json")', '"http://www.w3.org/2000/svg"'):
        assert not FOREIGN.search(text), text


def test_a_plain_file_server_hands_out_every_file_from_a_folder(exported, connection):
    for name, content in files(exported).items():
        connection.request("GET", f"/deep/lab/{name}")
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (200, content), name
    connection.request("GET", "/deep/lab/")
    home = connection.getresponse()
    assert (home.status, home.read()) == (200, (exported / "index.html").read_bytes())


def test_python_s_file_server_gives_scripts_and_webassembly_their_types(connection):
    for name, kind in {"pyodide.mjs": "text/javascript", "pyodide.asm.wasm": "application/wasm"}.items():
        connection.request("HEAD", f"/deep/lab/pyodide/{name}")
        answer = connection.getresponse()
        answer.read()
        assert answer.headers["Content-Type"] in {kind, "application/javascript"}


@pytest.mark.parametrize("name", ["induction", pytest.param("minilm", marks=needs_minilm)])
def test_recorded_maps_are_those_of_the_model_to_four_digits(exported, name):
    (listed,) = [
        each for each in json.loads((exported / "maps/index.json").read_text())["sets"] if each["model"] == name
    ]
    kept = json.loads((exported / "maps" / listed["file"]).read_text(encoding="utf-8"))
    model = {"induction": induction, "minilm": minilm}[name].load()
    ids, tokens = model.tokens(model.default_text)
    run = model.run(ids)
    assert (kept["tokens"], listed["n_tokens"], kept["text"]) == (tokens, len(tokens), model.default_text)
    assert len(kept["heads"]) == model.n_layers * model.n_heads == listed["n_layers"] * listed["n_heads"]
    for each in kept["heads"]:
        weight = run.maps[each["layer"]][each["head"]].dense()
        np.testing.assert_allclose(each["weight"], weight, atol=0.5001 * 10.0 ** -kept["digits"])


def test_recording_keeps_the_maps_of_models_that_are_not_here(tmp_path, monkeypatch):
    maps.record(tmp_path)
    before = files(tmp_path)
    monkeypatch.setattr(minilm, "PACKAGE", "not_installed_weights")
    maps._model_of.cache_clear()
    maps.see.cache_clear()
    maps.record(tmp_path)
    assert files(tmp_path) == before
    assert maps.record(tmp_path / "new") == ["induction"]
    maps._model_of.cache_clear()


def test_it_says_where_it_is_and_how_to_serve_it(tmp_path, exported):
    code, out, err = run("lab", "--export", str(tmp_path / "out"))
    assert (code, err) == (0, "")
    assert f"python -m http.server --directory {tmp_path / 'out'}" in out
    assert "stop button" in out
    assert files(tmp_path / "out") == files(exported)


def test_a_second_export_replaces_the_first_and_keeps_what_was_added(tmp_path, small):
    export(tmp_path)
    (tmp_path / "class.txt").write_text("ours")
    old = json.loads((tmp_path / LIST).read_text())
    (tmp_path / "old.html").write_text("of an older lab")
    old["files"]["old.html"] = hashlib.sha256(b"of an older lab").hexdigest()
    (tmp_path / LIST).write_text(json.dumps(old))
    export(tmp_path)
    found = files(tmp_path)
    assert found.pop("class.txt") == b"ours"
    assert found.keys() == {*files(small), LIST, ".nojekyll"}
    assert all(found[name] == content for name, content in files(small).items())


@pytest.mark.parametrize("what", ["changed", "in the way", "a folder"])
def test_what_was_changed_since_is_not_written_over(tmp_path, small, what):
    export(tmp_path)
    page = tmp_path / "index.html"
    if what == "changed":
        page.write_text("mine")
    elif what == "a folder":
        page.unlink()
        page.mkdir()
        (page / "mine.txt").write_text("mine")
    else:
        page.write_text("mine")
        said = json.loads((tmp_path / LIST).read_text())
        del said["files"]["index.html"]
        (tmp_path / LIST).write_text(json.dumps(said))
    before = files(tmp_path)
    refused(["lab", "--export", str(tmp_path)], 1, str(page), "--export")
    assert files(tmp_path) == before
    assert not (tmp_path / PART).exists()


def test_a_folder_of_other_things_is_left_alone(tmp_path, small):
    (tmp_path / "thesis.txt").write_text("mine")
    refused(["lab", "--export", str(tmp_path)], 1, "is not empty and no export")
    assert files(tmp_path) == {"thesis.txt": b"mine"}
    refused(["lab", "--export", str(tmp_path / "thesis.txt")], 1, "is a file")
    refused(["lab", "--export", str(tmp_path / "thesis.txt" / "lab")], 1, "cannot write to")


@pytest.mark.parametrize("said", ["", "[]", "{}", '{"files": []}', '{"files": 1}'])
def test_a_list_that_is_not_ours_makes_no_export(tmp_path, small, said):
    (tmp_path / LIST).write_text(said)
    refused(["lab", "--export", str(tmp_path)], 1, "is not empty and no export")


@pytest.mark.parametrize("name", ["../outside.txt", "sub/../../outside.txt", "/etc/hostname"])
def test_a_list_that_names_files_elsewhere_removes_none(tmp_path, small, name):
    outside = tmp_path / "outside.txt"
    outside.write_text("mine")
    folder = tmp_path / "lab"
    export(folder)
    said = json.loads((folder / LIST).read_text())
    said["files"][name] = hashlib.sha256(b"mine").hexdigest()
    (folder / LIST).write_text(json.dumps(said))
    refused(["lab", "--export", str(folder)], 1, "is no file of an export")
    assert outside.read_text() == "mine"


def test_a_link_in_an_export_is_not_followed(tmp_path, small):
    export(tmp_path / "lab")
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "lab" / "assets").rename(elsewhere)
    (tmp_path / "lab" / "assets").symlink_to(elsewhere)
    refused(["lab", "--export", str(tmp_path / "lab")], 1, "is no file of an export")


def test_the_site_names_the_authors_of_all_that_is_inside():
    if not (SITE / "licences.txt").exists():
        missing("the site is not built: make lab")
    said = (SITE / "licences.txt").read_text(encoding="utf-8")
    sources = [path for path in (WEB / "src").rglob("*") if path.suffix in {".ts", ".svelte", ".css"}]
    bare = re.compile(r"(?:from|import|url\(|@import)\s*\(?[\"']((?:@[\w-]+/)?[a-z][\w-]*)(?:/[^\"']*)?[\"']")
    used = {name for path in sources for name in bare.findall(path.read_text(encoding="utf-8"))}
    packages = {name for name in used if (WEB / "node_modules" / name).exists()}
    packages.discard("pyodide")  # beside the pages, with a file of its own
    assert {"svelte", "katex"} <= packages
    unnamed = [name for name in packages if not re.search(rf"^{re.escape(name)} \d", said, re.MULTILINE)]
    assert not unnamed, f"lab/licences.py leaves out {unnamed}"
    python = (SITE / "pyodide" / "LICENCES.txt").read_text(encoding="utf-8")
    assert all(each in python for each in ("Mozilla Public License", "PYTHON SOFTWARE FOUNDATION", "numpy"))
