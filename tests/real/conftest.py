"""Trained models, each loaded once; a test is skipped, with the reason, where the package of its model is not there."""

import os
from functools import cache
from typing import Any

import pytest

from real import folders
from real.catalogue import MODELS, Real

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when transformers is imported


@pytest.fixture(scope="session", params=MODELS, ids=lambda real: real.name)
def real(request: pytest.FixtureRequest) -> Real:
    """Each model in turn."""
    chosen: Real = request.param
    return chosen


@pytest.fixture(scope="session")
def model(real: Real) -> Any:
    """The model, loaded."""
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("transformers", reason="transformers is not installed")
    try:
        return loaded(real)
    except (folders.NotInstalledError, ModuleNotFoundError) as error:
        pytest.skip(f"{error}; make test installs it")


@cache
def loaded(real: Real) -> Any:
    """The model; all of them together take 1.3 GB."""
    import torch

    torch.set_num_threads(1)  # a second thread would wait for the first: the arrays are small
    return real.load()
