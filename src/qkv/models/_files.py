"""Where the weights lie, and how they are read: the only place of the models that opens a file."""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from qkv._typing import Array
from qkv.errors import MissingError


def folder_of(package: str, command: str) -> Path:
    """Where an installed package lies; it is found, not imported, so none of its code runs."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise MissingError(f"the package {package} with the weights is not installed: {command}")
    return Path(next(iter(spec.submodule_search_locations)))


def weights(path: Path, command: str) -> dict[str, Array]:
    """The arrays of a safetensors file, by name."""
    if not path.is_file():
        raise MissingError(f"the weight file {path} is not there; install it anew: {command}")
    arrays: dict[str, Array] = optional("safetensors.numpy").load_file(path)
    return arrays


def optional(module: str) -> Any:
    """A module of the extra `qkv[models]`."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise MissingError(f'the models need {error.name}: pip install "qkv[models]"') from None
