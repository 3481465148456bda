"""Lets the files of this folder import `definition`, with pytest's account of a failed assert inside it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
pytest.register_assert_rewrite("definition")
