"""The server of the lab, on this machine and for it alone."""

import contextlib
import socket
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from qkv.errors import ArgumentError, MissingError
from qkv_lab import SITE
from qkv_lab.api import Api
from qkv_lab.files import Files
from qkv_lab.safety import Guard, Token

HOST = "127.0.0.1"
PORT = 8517  # always the same: a browser keeps what a learner has done by address and port


def site() -> Path:
    """The folder of the built pages; `MissingError` says what to run where they are not built."""
    if not (SITE / "index.html").is_file():
        raise MissingError("the pages of the lab are not built; in a checkout of qkv run: make lab")
    return SITE


def application(folder: Path, port: int, token: Token) -> Guard:
    """The pages of a folder and the answers of the API, guarded, for a server at this port."""

    async def start(request: Request) -> Response:
        if not token.fits(request.query_params.get("token", "")):
            return PlainTextResponse("This address is of another start; open the one that qkv lab printed last.\n", 403)
        return RedirectResponse("/", 303, headers={"Set-Cookie": token.set_cookie(), "Cache-Control": "no-store"})

    routes = [
        Route("/start", start, methods=["GET"]),
        Api().routes(),
        Route("/{path:path}", Files(folder).answer, methods=["GET"]),
    ]
    return Guard(Starlette(routes=routes), port, token)


def bound(port: int) -> socket.socket:
    """A socket that listens at a port of this machine only; 0 is any that is free."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen()
    except OSError as error:
        listening.close()
        raise ArgumentError(
            f"port {port} can't be had ({error.strerror}), perhaps a lab runs there already; --port N names another, "
            "where the browser begins without your progress"
        ) from error
    return listening


def serve(port: int, say: Callable[[str], None], *, browser: bool) -> None:
    """Serve the lab until Ctrl-C, and say where; with a browser, open it there."""
    folder = site()
    with contextlib.closing(bound(port)) as listening:
        port = listening.getsockname()[1]
        token = Token(port)
        address = f"http://{HOST}:{port}/start?token={token.value}"
        say(f"The lab: {address}\nCtrl-C stops it.")
        if browser:
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        config = uvicorn.Config(
            application(folder, port, token),
            http="h11",
            ws="none",
            loop="asyncio",
            lifespan="off",
            log_level="error",  # what was wrong about a request tells its asker, not who reads here
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listening])
