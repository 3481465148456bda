"""The server of the lab: its pages, and maps of trained heads over any text."""

import contextlib
import gzip
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uvicorn
from asking import Lab
from browsing import SITE

import qkv_lab
from command import needs_minilm, refused
from qkv.errors import MissingError
from qkv.models import induction, minilm
from qkv_lab import api, maps, serve
from qkv_lab.files import TYPES, takes_gzip
from qkv_lab.safety import MOST_BODY, Token

INDUCTION = {"model": "induction", "layer": 1, "head": 0, "text": "abcabcabc"}


@pytest.fixture(scope="module")
def lab(site: str) -> Lab:
    return Lab(site)


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Lab]:
    """A server in this process, so that a test can hold what it computes."""
    listening = serve.bound(0)
    port = listening.getsockname()[1]
    token = Token(port)
    app = serve.application(folder, port, token)
    server = uvicorn.Server(uvicorn.Config(app, http="h11", ws="none", lifespan="off", log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield Lab(f"http://127.0.0.1:{port}/start?token={token.value}")
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


@pytest.fixture
def inside(tmp_path: Path) -> Iterator[Lab]:
    (tmp_path / "index.html").write_text("home")
    with running(tmp_path) as lab:
        yield lab


def test_every_file_of_the_site_has_its_type(lab):
    kinds = {path.suffix for path in SITE.rglob("*") if path.is_file()}
    assert kinds <= TYPES.keys(), "a type is missing in files.py"
    for suffix in kinds:
        path = next(path for path in SITE.rglob(f"*{suffix}"))
        answer = lab.ask(f"/{path.relative_to(SITE).as_posix()}")
        assert (answer.status, answer.headers["content-type"]) == (200, TYPES[suffix])
        assert answer.body == path.read_bytes()


def test_what_browsers_run_has_the_type_that_they_want():
    assert TYPES[".wasm"] == "application/wasm"
    assert {TYPES[".js"], TYPES[".mjs"]} == {"text/javascript; charset=utf-8"}
    assert TYPES[".woff2"] == "font/woff2"


def test_what_is_named_for_its_content_is_kept_and_all_else_is_asked_for_again(lab):
    script = next((SITE / "assets").glob("index-*.js")).name
    assert lab.ask(f"/assets/{script}").headers["cache-control"] == "public, max-age=31536000, immutable"
    for path in ("/", "/index.html", "/pyodide/pyodide.mjs", "/maps/index.json"):
        assert lab.ask(path).headers["cache-control"] == "no-cache"


def test_a_file_that_the_browser_has_is_not_sent_again(lab):
    first = lab.ask("/index.html")
    for known in (first.headers["etag"], f'"x", {first.headers["etag"]}', first.headers["etag"].removeprefix("W/")):
        again = lab.ask("/index.html", If_None_Match=known)
        assert (again.status, again.body) == (304, b"")
        assert again.headers["etag"] == first.headers["etag"]
    assert lab.ask("/index.html", If_None_Match='"other"').status == 200
    assert lab.ask("/").headers["etag"] == first.headers["etag"]


def test_text_is_packed_for_who_takes_it(lab):
    script = next((SITE / "assets").glob("index-*.js"))
    packed = lab.ask(f"/assets/{script.name}", Accept_Encoding="br, gzip;q=0.8")
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["vary"] == "Accept-Encoding"
    assert len(packed.body) < script.stat().st_size
    assert gzip.decompress(packed.body) == script.read_bytes()
    assert "content-encoding" not in lab.ask(f"/assets/{script.name}", Accept_Encoding="gzip;q=0, br").headers
    assert "content-encoding" not in lab.ask("/pyodide/pyodide.asm.wasm", Accept_Encoding="gzip").headers


def test_who_takes_gzip_says_so():
    assert [takes_gzip(header) for header in ("gzip", "br, GZIP ;q=0.5", "gzip; q=1")] == [True] * 3
    assert [takes_gzip(header) for header in ("", "br", "gzip;q=0", "gzip;q=0.00", "x-gzip")] == [False] * 5


def test_head_says_what_get_would_send(lab):
    answer = lab.ask("/index.html", "HEAD")
    assert (answer.status, answer.body) == (200, b"")
    assert int(answer.headers["content-length"]) == (SITE / "index.html").stat().st_size


def test_a_site_that_is_built_again_is_served_anew(inside, tmp_path):
    assert inside.ask("/").body == b"home"
    (tmp_path / "new.html").write_text("new")
    (tmp_path / "index.html").write_text("changed")
    os.utime(tmp_path / "index.html", ns=(1, 1))
    assert inside.ask("/").body == b"changed"
    assert inside.ask("/new.html").body == b"new"


@pytest.mark.parametrize("name", ["induction", pytest.param("minilm", marks=needs_minilm)])
def test_a_map_is_the_one_that_qkv_computes(lab, name):
    kind = {"induction": induction, "minilm": minilm}[name]
    model = kind.load()
    text = "the cat sat on the mat"
    ids, tokens = model.tokens(text)
    run = model.run(ids)
    for layer, head in ((0, 0), (1, 3)):
        got = lab.map({"model": name, "layer": layer, "head": head, "text": text}).json
        assert got["tokens"] == tokens
        assert (got["layer"], got["head"], got["text"]) == (layer, head, text)
        np.testing.assert_allclose(got["weight"], run.maps[layer][head].dense(), atol=0.5001e-4)
        np.testing.assert_allclose(got["value_weighted"], run.value_weighted(layer)[head].dense(), atol=0.5001e-4)
        np.testing.assert_allclose(got["entropy"], run.maps[layer][head].entropy(), atol=0.5001e-4)


def test_a_head_that_does_something_is_named(lab):
    assert lab.map(INDUCTION).json["pattern"] == {"name": "induction", "looks_at": "what followed it last time"}


@needs_minilm
def test_the_models_that_are_here_are_listed_with_their_sizes(lab):
    found = {each["name"]: each for each in lab.ask("/api/models", **lab.cookie).json["models"]}
    assert found.keys() == {"induction", "minilm"}
    assert (found["induction"]["n_layers"], found["induction"]["n_heads"], found["induction"]["causal"]) == (2, 4, True)
    assert (found["minilm"]["n_layers"], found["minilm"]["n_heads"], found["minilm"]["causal"]) == (6, 12, False)
    assert all(each["installed"] for each in found.values())


WRONG: list[tuple[Any, str]] = [
    (b"", "must be JSON"),
    (b"\xff", "must be JSON"),
    (b"[" * 10_000, "must be JSON"),
    ([], "an object with model, layer, head, text"),
    ({}, "an object with model, layer, head, text"),
    ({**INDUCTION, "more": 1}, "an object with model, layer, head, text"),
    ({**INDUCTION, "layer": "1"}, "layer must be a whole number"),
    ({**INDUCTION, "head": True}, "head must be a whole number"),
    ({**INDUCTION, "head": 1.0}, "head must be a whole number"),
    ({**INDUCTION, "text": None}, "text must be a text"),
    ({**INDUCTION, "text": "\ud800"}, "lone surrogates"),
    ({**INDUCTION, "model": "../minilm"}, "model must be induction or minilm"),
    ({**INDUCTION, "layer": 2}, "induction has layers 0 to 1"),
    ({**INDUCTION, "layer": -1}, "induction has layers 0 to 1"),
    ({**INDUCTION, "head": 10**30}, "induction has heads 0 to 3"),
    ({**INDUCTION, "text": ""}, "text is empty"),
    ({**INDUCTION, "text": "a,b"}, "a-z"),
    ({**INDUCTION, "text": "a" * 65}, "at most 64 tokens, got 65"),
    ({**INDUCTION, "text": "a" * 2001}, "2000 characters"),
]


@pytest.mark.parametrize(("asked", "part"), WRONG)
def test_what_can_t_be_computed_is_one_clear_line(lab, asked, part):
    answer = lab.map(asked)
    assert answer.status == 400
    assert answer.headers["content-type"] == "application/json"
    assert part in answer.json["error"]
    assert "\n" not in answer.json["error"]


@needs_minilm
def test_a_text_of_more_tokens_than_a_page_shows_is_refused(lab):
    asked = {"model": "minilm", "layer": 0, "head": 0, "text": "cat " * 127}
    assert "at most 128 tokens, got 129" in lab.map(asked).json["error"]
    assert len(lab.map({**asked, "text": "cat " * 126}).json["weight"]) == 128


def test_only_json_is_read(lab):
    assert lab.map(INDUCTION, Content_Type="text/plain").status == 415
    assert lab.map(INDUCTION, Content_Type="Application/JSON; charset=utf-8").status == 200


def test_the_longest_text_fits_the_bound_of_a_request():
    assert MOST_BODY > 6 * maps.MOST_CHARACTERS + 100  # each character as \uXXXX


def test_a_model_that_is_not_installed_is_said_to_be_missing(inside, monkeypatch):
    def load(name: str) -> Any:
        raise MissingError(f"{name} is not installed;\n  pip install it")

    monkeypatch.setattr(maps, "model_of", load)
    maps.see.cache_clear()
    answer = inside.map({**INDUCTION, "model": "minilm", "text": "nowhere else"})
    assert (answer.status, answer.json) == (409, {"error": "minilm is not installed; pip install it"})
    listed = inside.ask("/api/models", **inside.cookie).json["models"]
    assert [(each["installed"], "pip install" in each["missing"]) for each in listed] == [(False, True)] * 2


def held(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Barrier, threading.Event]:
    """Computation that waits: a barrier for the test and all that compute at once, and what lets these go on."""
    computing, go = threading.Barrier(api.AT_ONCE + 1, timeout=20), threading.Event()
    compute: Callable[..., Any] = api.compute

    def slow(asked: dict[str, Any]) -> Any:
        computing.wait()
        go.wait(20)
        return compute(asked)

    monkeypatch.setattr(api, "compute", slow)
    return computing, go


def test_pages_and_further_maps_come_while_maps_are_computed(inside, monkeypatch):
    computing, go = held(monkeypatch)
    with ThreadPoolExecutor(api.AT_ONCE) as pool:
        asked = [pool.submit(inside.map, {**INDUCTION, "head": head}) for head in range(api.AT_ONCE)]
        try:
            computing.wait()  # both compute now
            assert inside.ask("/").body == b"home"
            assert not any(each.done() for each in asked)
        finally:
            go.set()
        assert [each.result().json["head"] for each in asked] == list(range(api.AT_ONCE))


def test_without_built_pages_it_says_what_to_run(monkeypatch, tmp_path):
    monkeypatch.setattr(serve, "SITE", tmp_path)
    refused(["lab"], 1, "qkv lab: ", "not built", "make lab")
    refused(["lab", "--export", str(tmp_path / "out")], 1, "qkv lab: ", "not built", "make lab")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["qkv_lab", "starlette", "uvicorn"])
def test_without_its_packages_it_names_the_extra(name):
    hidden = f"import sys; sys.modules[{name!r}] = None; from qkv.cli import main; sys.exit(main(['lab']))"
    done = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"qkv lab: the lab needs {name}: pip install 'qkv[lab]'; in a checkout: make lab\n"


def test_a_port_that_is_taken_is_said(lab):
    refused(["lab", "--no-browser", "--port", str(lab.port)], 1, f"port {lab.port} can't be had", "--port N")


def test_wrong_options_are_wrong_usage(tmp_path):
    refused(["lab", "--port", "65536"], 2, "--port", "see qkv lab --help")
    refused(["lab", "--port", "1", "--export", str(tmp_path)], 2, "exclude each other")


def test_ctrl_c_ends_it_without_a_word(site):
    command = [sys.executable, "-m", "qkv.cli", "lab", "--no-browser", "--port", "0"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as server:  # type: ignore[call-overload]
        line = server.stdout.readline()
        lab = Lab(re.findall(r"http://\S+", line)[0])
        assert lab.ask("/").status == 200
        server.send_signal(signal.SIGINT)
        said = server.stdout.read(), server.stderr.read()
    assert (server.returncode, *said) == (0, "Ctrl-C stops it.\n", "")


def test_the_browser_is_opened_at_the_address_that_lets_it_in(monkeypatch, site):
    opened, said = threading.Event(), list[str]()
    monkeypatch.setattr(serve.webbrowser, "open", lambda address: (said.append(address), opened.set()))
    monkeypatch.setattr(uvicorn.Server, "run", lambda *_, **__: opened.wait(10))
    serve.serve(0, said.append, browser=True)
    assert len(said) == 2
    assert said[1] in said[0] or said[0] in said[1]
    opened.clear()
    said.clear()
    monkeypatch.setattr(uvicorn.Server, "run", lambda *_, **__: None)
    serve.serve(0, said.append, browser=False)
    assert not opened.wait(0.2)


def test_the_package_knows_its_version():
    assert qkv_lab.__version__
