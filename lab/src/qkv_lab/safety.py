"""Who may ask the server, and what every answer carries: pages of other origins get nothing, not even by a false name.

A page from elsewhere can send requests to this machine, and by DNS rebinding call it by its own name. So each request
must name this server as its Host, and if it has an Origin, that must be this server's. What computes needs the token
of this start besides.
"""

import json
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

MOST_BODY = 16_384  # bytes; the longest text that is taken has fewer

# What lab/web/build/pages.ts writes into each page, which also holds where the pages are served by another server.
POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; font-src 'self'; "
    "img-src 'self' data: blob:; connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'"
)
HEADERS = {
    "Content-Security-Policy": f"{POLICY}; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",  # with the next one, Python in the browser can be interrupted
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_RAW_HEADERS = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]


class Token:
    """The token of one start, and the cookie that brings it back."""

    def __init__(self, port: int) -> None:
        self.value = secrets.token_urlsafe(32)
        self.cookie = f"qkv-lab-{port}"  # cookies know no ports: two labs on one machine have two

    def fits(self, given: str) -> bool:
        """Whether this is the token, in a time that does not tell how much of it is right."""
        return secrets.compare_digest(given.encode("utf-8", "surrogateescape"), self.value.encode())

    def set_cookie(self) -> str:
        """The header that hands the token to a browser, for requests of its own pages to /api."""
        return f"{self.cookie}={self.value}; Path=/api; HttpOnly; SameSite=Strict"

    def within(self, cookies: list[str]) -> bool:
        """Whether a request's Cookie headers bring the token, beside whatever other programs of this machine set."""
        pairs = [each.strip().partition("=") for header in cookies for each in header.split(";")]
        return any(name == self.cookie and self.fits(value) for name, _, value in pairs)


class Guard:
    """Turns away what may not ask, before anything else sees it, and gives every answer its headers."""

    def __init__(self, app: App, port: int, token: Token) -> None:
        self.app = app
        self.token = token
        ports = {"", ":80"} if port == 80 else {f":{port}"}
        self.hosts = {name + each for name in ("127.0.0.1", "localhost") for each in ports}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            raise NotImplementedError(f"the lab speaks HTTP, not {scope['type']}")

        async def send_guarded(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *_RAW_HEADERS]
            await send(message)

        refused = self.refusal(scope)
        if refused is None:
            await self.app(scope, receive, send_guarded)
        else:
            await answer(send_guarded, scope["path"], *refused)

    def refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Status and reason for a request that is not let in."""
        given: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            given.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        host = [each.lower() for each in given.get("host", [])]
        if len(host) != 1 or host[0] not in self.hosts:
            return 403, "The lab answers only to the address that qkv lab printed."
        if any(origin != f"http://{host[0]}" for origin in given.get("origin", [])):
            return 403, "The lab does not answer pages of other origins."
        length = given.get("content-length", ["0"])[0]
        if not length.isdecimal() or int(length) > MOST_BODY:
            return 413, f"The lab takes at most {MOST_BODY} bytes."
        if scope["path"].startswith("/api/"):
            return self.refusal_to_compute(given)
        return None

    def refusal_to_compute(self, given: dict[str, list[str]]) -> tuple[int, str] | None:
        """As `refusal`, for what only pages of this start may ask."""
        if any(each != "same-origin" for each in given.get("sec-fetch-site", [])):
            return 403, "The lab does not answer pages of other origins."
        if not self.token.within(given.get("cookie", [])):
            return 403, "Open the lab by the address that qkv lab printed; it brings the token of this start."
        return None


async def answer(send: Send, path: str, status: int, reason: str) -> None:
    """The reason, as the pages read it from /api and as a line of text elsewhere. What else comes in is not read."""
    asked_by_page = path.startswith("/api/")
    kind = b"application/json" if asked_by_page else b"text/plain; charset=utf-8"
    body = json.dumps({"error": reason}) if asked_by_page else f"{reason}\n"
    headers = [(b"content-type", kind), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body.encode()})
