"""The site as a folder of static files, which any web server can hand to a class of any size.

The folder carries a list of its files with their sha256. A second export replaces those, and nothing that anyone added
or changed since.
"""

import hashlib
import json
import shutil
from pathlib import Path
from typing import NamedTuple

from qkv.errors import ArgumentError
from qkv_lab import __version__, maps
from qkv_lab.serve import site

LIST = "qkv-lab.json"
PART = ".qkv-lab-part"  # where files are complete before any takes its place


class Exported(NamedTuple):
    """What was written."""

    folder: Path
    n_files: int
    n_bytes: int
    maps: list[str]  # the models whose maps it has


def export(folder: Path) -> Exported:
    """Write the site into a folder: a new or empty one, or an earlier export that is as it was written."""
    pages = site()
    before = listed(folder)
    part = folder / PART
    shutil.rmtree(part, ignore_errors=True)
    try:
        shutil.copytree(pages, part)
        recorded = maps.record(part / "maps")
        (part / ".nojekyll").touch()  # one host leaves out files with an underscore in front, unless it sees this
        after = {path.relative_to(part).as_posix(): sha256(path) for path in part.rglob("*") if path.is_file()}
        refuse_changed(folder, before, after)
        n_bytes = sum((part / name).stat().st_size for name in after)
        for name in after:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (part / name).replace(folder / name)
        for name in before.keys() - after.keys():
            (folder / name).unlink(missing_ok=True)
        text = json.dumps({"made_by": f"qkv lab {__version__}", "files": after}, indent=1)
        (folder / LIST).write_text(text + "\n", encoding="utf-8")
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return Exported(folder, len(after), n_bytes, recorded)


def listed(folder: Path) -> dict[str, str]:
    """The files of an earlier export in a folder and their sha256; none where there is nothing yet."""
    if folder.exists() and not folder.is_dir():
        raise ArgumentError(f"{folder} is a file; --export DIR names a folder")
    if not folder.exists() or not any(path.name != PART for path in folder.iterdir()):
        return {}
    try:
        found = json.loads((folder / LIST).read_text(encoding="utf-8"))["files"]
        return {str(name): str(digest) for name, digest in found.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ArgumentError(f"{folder} is not empty and no export of the lab; --export names another folder") from error


def refuse_changed(folder: Path, before: dict[str, str], after: dict[str, str]) -> None:
    """Stop before a file is written over, or removed, that is not as an export left it."""
    root = folder.resolve()
    for name in before.keys() | after.keys():
        path = folder / name
        ours = path.resolve() == root / name and root in path.resolve().parents  # no link and no .. leads out of it
        if not ours or (path.exists() and not path.is_file()):
            raise ArgumentError(f"{path} is no file of an export; --export names another folder")
        if path.exists() and sha256(path) not in {before.get(name), after.get(name)}:
            raise ArgumentError(f"{path} was changed since it was exported; move it, or --export into another folder")


def sha256(path: Path) -> str:
    """Of its content, as 64 hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
