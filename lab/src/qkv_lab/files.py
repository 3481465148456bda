"""The pages: a list of files, made from the folder. What is not on the list is not served, so no path leads out."""

import gzip
import hashlib
import re
from functools import cached_property
from pathlib import Path

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

# Set here, as those of the system differ: a browser runs no module and no WebAssembly of another type.
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".mjs": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".wasm": "application/wasm",
    ".whl": "application/zip",
    ".woff2": "font/woff2",
    ".zip": "application/zip",
}
PACKED = {".css", ".html", ".js", ".json", ".mjs", ".svg", ".txt"}  # what gzip makes smaller
HASHED = re.compile(r"assets/.+-[\w-]{8}\.\w+")  # a file whose name changes with its content


class File:
    """One file of the site, read when it is first asked for and kept."""

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        self.type = TYPES.get(path.suffix, "application/octet-stream")
        self.cache = "public, max-age=31536000, immutable" if HASHED.fullmatch(name) else "no-cache"

    @cached_property
    def content(self) -> bytes:
        """Its bytes."""
        return self.path.read_bytes()

    @cached_property
    def packed(self) -> bytes | None:
        """Its bytes by gzip, where that is worth it."""
        return gzip.compress(self.content, 6, mtime=0) if self.path.suffix in PACKED else None

    @cached_property
    def tag(self) -> str:
        """What changes with the content; weak, as it is the same for both forms."""
        return f'W/"{hashlib.sha256(self.content).hexdigest()[:32]}"'


class Files:
    """All files below a folder by their address; listed anew when the site is built again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.listed: dict[str, File] = {}
        self.built = 0

    def find(self, name: str) -> File | None:
        """The file with this address, without the slash in front; "" is the first page."""
        index = self.folder / "index.html"
        built = index.stat().st_mtime_ns if index.is_file() else 0
        if built != self.built:
            paths = [path for path in self.folder.rglob("*") if path.is_file() and not path.is_symlink()]
            names = {path.relative_to(self.folder).as_posix(): path for path in paths}
            self.listed, self.built = {name: File(path, name) for name, path in names.items()}, built
        return self.listed.get(name or "index.html")

    async def answer(self, request: Request) -> Response:
        """One file, whole; 304 where the browser has it already."""
        file = self.find(request.path_params["path"])
        if file is None:
            return PlainTextResponse("There is no such page; the lab begins at /\n", 404)
        headers = {"Cache-Control": file.cache, "ETag": file.tag, "Vary": "Accept-Encoding"}
        known = [each.strip() for each in request.headers.get("if-none-match", "").split(",")]
        if file.tag in known or file.tag.removeprefix("W/") in known:
            return Response(status_code=304, headers=headers)
        content = file.content
        if file.packed is not None and takes_gzip(request.headers.get("accept-encoding", "")):
            content, headers["Content-Encoding"] = file.packed, "gzip"
        return Response(content, headers={**headers, "Content-Type": file.type})


def takes_gzip(header: str) -> bool:
    """Whether Accept-Encoding names gzip and does not rule it out."""
    for each in header.lower().split(","):
        name, _, weight = each.partition(";")
        if name.strip() == "gzip":
            return re.fullmatch(r"q=0(\.0*)?", weight.strip()) is None
    return False
