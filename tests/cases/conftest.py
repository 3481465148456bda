"""A failed assert inside `definition` is told as one in a test would be."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("cases.definition")
