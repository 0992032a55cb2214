"""Lightning, under whichever of its two names the program uses it."""

import importlib
import sys
from typing import Any

_NAMES = {"lightning": "lightning.pytorch", "pytorch_lightning": "pytorch_lightning"}


def _lightning():
    """The package that is imported already, else the one that is installed: their classes do not mix."""
    names = sorted(_NAMES, key=lambda name: name not in sys.modules)
    for name in names:
        try:
            return importlib.import_module(_NAMES[name])
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
    raise ModuleNotFoundError("PyTorch Lightning is not installed: pip install lightning", name="lightning")


pl: Any = _lightning()
