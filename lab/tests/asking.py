"""Requests to a running lab, well formed and not, and what comes back."""

import http.client
import json
import socket
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Lab:
    """A running server, known by the address that it printed."""

    def __init__(self, start: str) -> None:
        self.start = urlsplit(start)
        self.port = self.start.port or 80
        self.host = f"127.0.0.1:{self.port}"
        (self.token,) = parse_qs(self.start.query)["token"]
        self.cookie = {"Cookie": f"qkv-lab-{self.port}={self.token}"}

    def ask(self, path: str, method: str = "GET", body: bytes | None = None, **headers: str) -> Answer:
        """One request with these headers, their names written with _ for -; Host is the right one unless given."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, path, body, {"Host": self.host, **named})
            got = connection.getresponse()
            return Answer(got.status, {name.lower(): value for name, value in got.getheaders()}, got.read())
        finally:
            connection.close()

    def map(self, asked: Any, **headers: str) -> Answer:
        """A request for a map by a page of this start."""
        body = asked if isinstance(asked, bytes) else json.dumps(asked).encode()
        return self.ask("/api/map", "POST", body, **{"Content_Type": "application/json", **self.cookie, **headers})

    def raw(self, text: str) -> str:
        """What comes back for bytes as they are, up to the end of the connection or of its headers."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            connection.sendall(text.replace("\n", "\r\n").encode("latin-1"))
            got = b""
            while part := connection.recv(65536):
                got += part
                if b"\r\n\r\n" in got:
                    break
        return got.decode("latin-1")
