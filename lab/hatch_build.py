"""A wheel or sdist of the lab holds the built site; an editable install may come before it."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class HasSite(BuildHookInterface[Any]):
    """Refuses to pack the lab without its pages."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before files are collected."""
        if version != "editable" and not Path(self.root, "src", "qkv_lab", "site", "index.html").is_file():
            raise FileNotFoundError("lab/src/qkv_lab/site is not there; make site builds it")
