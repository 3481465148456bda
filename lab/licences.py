"""Writes the licences of what is inside the built pages to lab/web/public/licences.txt: python lab/licences.py

Vite puts parts of these packages of node_modules into the site, and their authors want to be named with them. Pyodide,
which lies beside the pages, has a file of its own (fetch.py).
"""

import json
from pathlib import Path

WEB = Path(__file__).resolve().parent / "web"
OUT = WEB / "public" / "licences.txt"
INSIDE = (
    "svelte",
    "d3-scale",
    "codemirror",
    "@codemirror/commands",
    "@codemirror/lang-python",
    "@codemirror/language",
    "@codemirror/state",
    "@codemirror/view",
    "@fontsource-variable/inter",
    "@fontsource-variable/jetbrains-mono",
    "@fontsource-variable/source-serif-4",
    "katex",
)
RULE = "\n" + "=" * 79 + "\n\n"


def needed() -> list[str]:
    """The packages inside the pages and all that they need, by the lock file; some of it stays out of the pages."""
    lock = json.loads((WEB / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    found, waiting = set[str](), list(INSIDE)
    while waiting:
        name = waiting.pop()
        if name not in found and f"node_modules/{name}" in lock:
            found.add(name)
            waiting += lock[f"node_modules/{name}"].get("dependencies", {})
    return sorted(found)


def licence(name: str) -> str:
    """What a package is, and the text of its licence."""
    folder = WEB / "node_modules" / name
    about = json.loads((folder / "package.json").read_text(encoding="utf-8"))
    texts = sorted(path for path in folder.iterdir() if path.name.upper().startswith(("LICENSE", "LICENCE")))
    heading = f"{name} {about['version']}: {about.get('license', 'see below')}"
    return "\n\n".join([heading, *(path.read_text(encoding="utf-8").strip() for path in texts)])


if __name__ == "__main__":
    opening = "Inside the pages of the lab are parts of these packages, under these licences."
    OUT.write_text(RULE.join([opening, *map(licence, needed())]) + "\n", encoding="utf-8")
