"""What the server promises: each promise is tried on one that runs."""

import contextlib
import re
import socket
from pathlib import Path

import pytest
from asking import Lab
from browsing import SITE

from qkv_lab.files import Files
from qkv_lab.safety import HEADERS, MOST_BODY, POLICY, Guard, Token

ROOT = Path(__file__).parents[2]
INDUCTION = {"model": "induction", "layer": 1, "head": 0, "text": "abcabc"}
SECRET = b"secrets.compare_digest"  # stands in safety.py, beside the folder of the site


@pytest.fixture(scope="module")
def lab(site: str) -> Lab:
    return Lab(site)


def test_it_listens_on_one_address_of_this_machine(lab):
    with socket.create_connection(("127.0.0.1", lab.port), timeout=5):
        pass
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", lab.port), timeout=5)


@pytest.mark.parametrize("path", ["/", "/start", "/api/models"])
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1",
        "127.0.0.1:1",
        "127.0.0.1.evil.example:{port}",
        "[::1]:{port}",
        "localhost.:{port}",
        "127.0.0.1:0{port}",
        "127.0.0.1:{port}@evil.example",
        "user@127.0.0.1:{port}",
        "127.1:{port}",
        "2130706433:{port}",
        "127.0.0.1:{port}, evil.example",
    ],
)
def test_a_request_by_another_name_is_turned_away(lab, path, host):
    answer = lab.ask(path, Host=host.format(port=lab.port), **lab.cookie)
    assert answer.status == 403
    assert b"<html" not in answer.body


def test_a_request_without_a_host_or_with_two_is_turned_away(lab):
    for head in ("", "Host: \n", f"Host: {lab.host}\nHost: {lab.host}\n", f"Host: {lab.host}\nHost: evil.example\n"):
        for version in ("1.0", "1.1"):
            assert re.match(r"HTTP/1\.1 40[03] ", lab.raw(f"GET / HTTP/{version}\n{head}\n")), (head, version)


def test_both_names_of_this_machine_are_answered(lab):
    assert lab.ask("/", Host=f"localhost:{lab.port}").status == 200
    assert lab.ask("/", Host=f"LocalHost:{lab.port}").status == 200


FOREIGN = """
http://evil.example null https://{host} http://localhost:{port} http://{host}.evil.example http://127.0.0.1
http://127.0.0.1.:{port} http://{host}/ NULL file:// http://{host},null
""".split()


@pytest.mark.parametrize("origin", [*FOREIGN, ""])
def test_a_page_of_another_origin_gets_nothing_even_with_the_token(lab, origin):
    given = origin.format(host=lab.host, port=lab.port)
    assert lab.ask("/", Origin=given).status == 403
    assert lab.map(INDUCTION, Origin=given).status == 403
    assert "weight" not in lab.map(INDUCTION, Origin=given).json


def test_the_lab_s_own_pages_are_answered(lab):
    assert lab.ask("/", Origin=f"http://{lab.host}").status == 200
    assert lab.map(INDUCTION, Origin=f"http://{lab.host}", Sec_Fetch_Site="same-origin").status == 200


@pytest.mark.parametrize("site_of_page", ["cross-site", "same-site", "none"])
def test_what_a_browser_says_of_the_asking_page_counts(lab, site_of_page):
    assert lab.ask("/api/models", Sec_Fetch_Site=site_of_page, **lab.cookie).status == 403


COOKIES = """
{name}= {name}=x{token} {name}={short} x={token} {name}=é \x01 a{name}={token} {name}="{token}"
""".split()


@pytest.mark.parametrize("cookie", [None, "", *COOKIES])
def test_without_the_token_of_this_start_nothing_is_computed(lab, cookie):
    name = f"qkv-lab-{lab.port}"
    given = {} if cookie is None else {"Cookie": cookie.format(name=name, token=lab.token, short=lab.token[:-1])}
    for answer in (lab.ask("/api/models", **given), lab.ask(f"/api/models?token={lab.token}", **given)):
        assert answer.status in {400, 403}
        assert b"models" not in answer.body
    assert lab.ask("/api/map", "POST", b"{}", Content_Type="application/json", **given).status in {400, 403}


def test_pages_need_no_token(lab):
    assert lab.ask("/").status == 200


def test_the_printed_address_hands_the_token_to_this_browser_only(lab):
    answer = lab.ask(f"/start?token={lab.token}")
    assert (answer.status, answer.headers["location"]) == (303, "/")
    assert answer.headers["cache-control"] == "no-store"
    cookie, *traits = answer.headers["set-cookie"].split("; ")
    assert cookie == lab.cookie["Cookie"]
    assert sorted(traits) == ["HttpOnly", "Path=/api", "SameSite=Strict"]
    others = 'other=1; version=2; path; note={"a": 1}; =; é'
    for given in (f"{others}; {cookie}", f"{cookie}; {others}", f"{cookie};{others};{cookie}x"):
        assert lab.ask("/api/models", Cookie=given).status == 200, given


@pytest.mark.parametrize("query", ["", "?token=", "?token=wrong", "?token=%ff", "?token=%C3%A9", "?other={token}"])
def test_the_address_of_another_start_gives_no_cookie(lab, query):
    answer = lab.ask(f"/start{query.format(token=lab.token)}")
    assert answer.status == 403
    assert "set-cookie" not in answer.headers


def test_each_start_has_a_token_of_its_own():
    first, second = Token(8000), Token(8000)
    assert len(first.value) >= 43
    assert first.fits(first.value)
    assert not first.fits(second.value)
    assert not first.fits("\udcff")


OUTSIDE = """
/../safety.py /%2e%2e/safety.py /..%2fsafety.py /%2e%2e%2fsafety.py /%252e%252e/safety.py /assets/../../safety.py
/assets/%2e%2e/%2e%2e/safety.py /./../safety.py //../safety.py /..\\safety.py /..%5csafety.py /%c0%ae%c0%ae/safety.py
/..;/safety.py /index.html/../../safety.py /index.html%00.txt /index.html/ /assets /assets/ /.. /%00 //etc/passwd
/index.html%3F /index.html%23 /%3F /%23 /INDEX.HTML /index.html. /index.html%20 /index.html::$DATA /%2findex.html
/%2fetc%2fpasswd /../../../../../../../../etc/passwd /file:///etc/passwd http://{host}/../safety.py
""".split()


@pytest.mark.parametrize("path", OUTSIDE)
def test_no_path_leads_out_of_the_site(lab, path):
    for written in {path, path.replace("safety.py", "__init__.py")}:
        got = lab.raw(f"GET {written.format(host=lab.host)} HTTP/1.1\nHost: {lab.host}\nConnection: close\n\n")
        assert re.match(r"HTTP/1\.1 40[034] ", got), got[:80]
        assert SECRET.decode() not in got


def test_a_link_out_of_the_site_is_no_page(tmp_path):
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "index.html").write_text("home")
    (tmp_path / "secret.txt").write_text("secret")
    with contextlib.suppress(OSError):
        (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
        (folder / "above").symlink_to(tmp_path, target_is_directory=True)
    files = Files(folder)
    assert files.find("link.txt") is None
    assert files.find("above/secret.txt") is None
    assert files.find("../secret.txt") is None
    home = files.find("")
    assert home is not None
    assert home.content == b"home"


def test_a_large_body_is_refused_before_it_is_sent(lab):
    for path in ("/", "/start", "/api/map", "/api/models"):
        got = lab.raw(f"POST {path} HTTP/1.1\nHost: {lab.host}\nContent-Length: {MOST_BODY + 1}\n\n")
        assert got.startswith("HTTP/1.1 413 "), path
        assert "connection: close" in got.lower()
    assert lab.map(b"x" * MOST_BODY).status == 400


def test_a_large_body_in_parts_is_refused_while_it_comes(lab):
    head = f"POST /api/map HTTP/1.1\nHost: {lab.host}\nCookie: {lab.cookie['Cookie']}\n"
    part = f"{0x4000:x}\n{'x' * 0x4000}\n"
    got = lab.raw(f"{head}Content-Type: application/json\nTransfer-Encoding: chunked\n\n{part * 2}")
    assert got.startswith("HTTP/1.1 413 ")


@pytest.mark.parametrize("length", ["-1", "+1", "1e3", "0x10", "99999999999999999999999", "9" * 5000, "1, 2", "²"])
def test_a_length_that_is_none_is_refused(lab, length):
    got = lab.raw(f"POST /api/map HTTP/1.1\nHost: {lab.host}\nContent-Length: {length}\n\n")
    assert re.match(r"HTTP/1\.1 4(00|13) ", got)


def test_what_smuggles_or_upgrades_is_answered_once_or_refused(lab):
    head = f"HTTP/1.1\nHost: {lab.host}\n"
    both = lab.raw(f"POST /api/map {head}Content-Length: 5\nTransfer-Encoding: chunked\n\n0\n\n")
    assert re.match(r"HTTP/1\.1 40[03] ", both)
    coded = ("Transfer-Encoding: gzip", "Transfer-Encoding: chunked, identity")
    for name in ("Content-Length: 5\nContent-Length: 6", *coded):
        assert re.match(r"HTTP/1\.1 (400|403|501) ", lab.raw(f"POST /api/map {head}{name}\n\n")), name
    upgrade = lab.raw(f"GET /api/models {head}Connection: Upgrade\nUpgrade: websocket\nSec-WebSocket-Key: x\n\n")
    assert upgrade.startswith("HTTP/1.1 403 ")
    assert lab.ask("/").status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"])
def test_pages_can_only_be_read(lab, method):
    answer = lab.ask("/index.html", method)
    assert answer.status == 405
    assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD"}


def test_each_question_has_its_method(lab):
    assert lab.ask("/api/map", **lab.cookie).status == 405
    assert lab.ask("/api/models", "POST", **lab.cookie).status == 405
    assert lab.ask("/start", "POST").status == 405
    assert lab.ask("/api/other", **lab.cookie).status == 404


def test_every_answer_carries_the_headers_of_safety(lab):
    script = next((SITE / "assets").glob("*.js")).name
    worker = [f"/assets/{path.name}" for path in (SITE / "assets").glob("*orker*.js")]
    python = ["/pyodide/pyodide.mjs", "/pyodide/pyodide.asm.wasm"]
    ways = [f"/start?token={lab.token}", "/start", "/nowhere", "/api/models", "/api/nothing", "/maps/index.json"]
    for path in ("/", "/one-token.html", f"/assets/{script}", *worker, *python, *ways):
        for headers in ({}, lab.cookie, {"Origin": "http://evil.example"}):
            answer = lab.ask(path, **headers)
            found = {name: answer.headers.get(name.lower()) for name in HEADERS}
            assert found == HEADERS, path
    assert lab.map(INDUCTION).headers["cross-origin-resource-policy"] == "same-origin"
    assert lab.map({}).headers["x-content-type-options"] == "nosniff"
    assert not {"server", "access-control-allow-origin"} & lab.ask("/").headers.keys()


def test_headers_that_isolate_a_page_have_the_values_that_browsers_want():
    assert HEADERS["Cross-Origin-Opener-Policy"] == "same-origin"
    assert HEADERS["Cross-Origin-Embedder-Policy"] == "require-corp"
    assert HEADERS["Referrer-Policy"] == "no-referrer"
    assert HEADERS["X-Content-Type-Options"] == "nosniff"


def test_the_policy_lets_no_inline_script_or_style_and_nothing_foreign_in():
    policy = HEADERS["Content-Security-Policy"]
    rules = {name: values for name, *values in (rule.split() for rule in policy.split(";"))}
    assert rules["default-src"] == ["'none'"]
    assert rules["script-src"] == ["'self'", "'wasm-unsafe-eval'"]
    assert rules["frame-ancestors"] == ["'none'"]
    assert "'unsafe-inline'" not in policy.split()
    assert "'unsafe-eval'" not in policy.split()
    sources = {value for values in rules.values() for value in values}
    assert sources <= {"'none'", "'self'", "'wasm-unsafe-eval'", "data:", "blob:"}
    assert {name for name, values in rules.items() if "data:" in values} == {"img-src"}


def test_the_pages_carry_the_same_policy_for_other_servers():
    source = (ROOT / "lab/web/build/pages.ts").read_text(encoding="utf-8")
    found = re.search(r"export const policy =\s*((?:\"[^\"]*\"[\s+]*)+);", source)
    assert found
    assert "".join(re.findall(r'"([^"]*)"', found[1])) == POLICY


def test_every_built_page_carries_it(site):
    for page in SITE.glob("*.html"):
        assert f'http-equiv="Content-Security-Policy" content="{POLICY}"' in page.read_text(encoding="utf-8"), page.name


@pytest.mark.parametrize("port", [80, 8000])
def test_a_host_is_written_without_the_port_of_http_only(port):
    hosts = Guard(lambda *_: None, port, Token(port)).hosts  # type: ignore[arg-type, return-value]
    assert ("127.0.0.1" in hosts) == (port == 80)
    assert f"127.0.0.1:{port}" in hosts
