"""A failed assert inside `definition` is told as one in a test would be; every case runs on every kernel."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("cases.definition")


@pytest.fixture(autouse=True)
def _on_every_kernel(every_kernel: str) -> None: ...
