"""Tests that ask for `every_kernel` run on each kernel that this CPU has, and on the tile walk.

The chosen kernel runs every case. Each of the others runs, of every test, the first case and then each fifth one, the
others in turn: together they see most cases, at a fraction of the time.

Random cases are the same ones in every run, so that a failure is there again in the next; HYPOTHESIS_PROFILE=default
draws new ones.
"""

import os
from collections import Counter
from typing import Any

import pytest
from hypothesis import settings

import running

EVERY = 5
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


@pytest.fixture(params=running.NAMES)
def every_kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of the kernel that `A @ v` runs in for the time of this test."""
    monkeypatch.setenv("QKV_KERNEL", request.param)
    return request.param


@pytest.fixture(params=running.COMPILED)
def compiled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a compiled kernel, chosen for the time of this test: each in turn, in every case."""
    monkeypatch.setenv("QKV_KERNEL", request.param)
    return request.param


@pytest.hookimpl(tryfirst=True)  # before -k, so that the choice does not depend on it
def pytest_collection_modifyitems(config: pytest.Config, items: list[Any]) -> None:
    kept, left, cases = [], [], Counter[tuple[str, ...]]()
    for item in items:
        name = item.callspec.params.get("every_kernel") if hasattr(item, "callspec") else None
        test = (item.nodeid.split("[")[0], str(name))
        turn = running.NAMES.index(name) if name else 0
        runs = turn == 0 or cases[test] == 0 or cases[test] % EVERY == turn % EVERY
        cases[test] += 1
        (kept if runs else left).append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = kept
