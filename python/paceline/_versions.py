"""What must be the same in all processes of a run, wherever they are."""

import importlib.metadata
import platform
from typing import Dict

from paceline._version import __version__


def of_environment() -> Dict[str, str]:
    """By name; "" for what is missing. Python's without its last number, which what travels does not depend on, and torch's
    without its platform: a run may have nodes with GPUs and nodes without."""
    return {
        "Paceline": __version__,
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "torch": _version_of("torch").partition("+")[0],
    }


def _version_of(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
