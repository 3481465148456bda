"""What the pages ask this machine to compute: maps of trained heads over any text.

    GET  /api/models   {"models": [each as `maps.known` says]}
    POST /api/map      {"model", "layer", "head", "text"} to what `maps.text_of` and `maps.head_of` say, in one object

An answer that is no map is {"error": one line}: 400 for what can't be computed, 409 for a model that is not installed.
"""

import json
from typing import Any

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

from qkv.errors import ArgumentError, MissingError, QKVError
from qkv_lab import maps
from qkv_lab.safety import MOST_BODY

ASKED = {"model": str, "layer": int, "head": int, "text": str}
AT_ONCE = 2  # computations; more of them would only wait for each other
JSON = "application/json"


class Api:
    """The answers, computed beside the server's loop, so that pages are served meanwhile."""

    def __init__(self) -> None:
        self._limit: CapacityLimiter | None = None

    def routes(self) -> Mount:
        """The addresses."""
        models = Route("/models", self.models, methods=["GET"])
        return Mount("/api", routes=[models, Route("/map", self.map, methods=["POST"])])

    async def models(self, _: Request) -> JSONResponse:
        """Which models are here."""
        return JSONResponse({"models": await to_thread.run_sync(maps.known, limiter=self.limit())})

    async def map(self, request: Request) -> JSONResponse:
        """One head over one text."""
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
            return failure(415, f"Content-Type must be {JSON}")
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > MOST_BODY:
                return failure(413, f"the lab takes at most {MOST_BODY} bytes")
        try:
            asked = read(body)
            return JSONResponse(await to_thread.run_sync(compute, asked, limiter=self.limit()))
        except MissingError as error:
            return failure(409, str(error))
        except QKVError as error:
            return failure(400, str(error))

    def limit(self) -> CapacityLimiter:
        """Bounds what is computed at once; it belongs to the running loop, so it is made within it."""
        if self._limit is None:
            self._limit = CapacityLimiter(AT_ONCE)
        return self._limit


def read(body: bytes) -> dict[str, Any]:
    """The request as JSON with exactly the fields of `ASKED`."""
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ArgumentError("the request must be JSON in UTF-8") from error
    if not isinstance(asked, dict) or asked.keys() != ASKED.keys():
        raise ArgumentError(f"the request must be an object with {', '.join(ASKED)}")
    for name, kind in ASKED.items():
        if type(asked[name]) is not kind:
            raise ArgumentError(f"{name} must be {'a text' if kind is str else 'a whole number'}")
    try:
        asked["text"].encode()
    except UnicodeError as error:
        raise ArgumentError("text must be Unicode without lone surrogates") from error
    return asked


def compute(asked: dict[str, Any]) -> dict[str, Any]:
    """The map that was asked for, with its tokens."""
    seen = maps.see(asked["model"], asked["text"])
    return {**maps.text_of(seen), **maps.head_of(seen, asked["layer"], asked["head"])}


def failure(status: int, reason: str) -> JSONResponse:
    """One line that says why not, and what to do."""
    return JSONResponse({"error": " ".join(reason.split())}, status)
