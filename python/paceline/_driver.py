"""The driver's side of this process: started at the first fit()."""

import json
import os
import sys

from paceline import _environment
from paceline._native import native

GUARDIAN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "paceline_guardian")


def ensure():
    """Starts the guardian, once."""
    if native.is_driver():
        return
    _environment.note_others()
    worker = [sys.executable, "-m", "paceline._worker"]
    warm = [sys.executable, "-m", "paceline._warm", json.dumps(_imported_modules())]
    native.become_driver(worker, warm, GUARDIAN)


def _imported_modules():
    """Installed packages that this process has imported, and their modules, because some packages load those only when
    they are used: workers will want them too. Not the user's own modules, which may change between two runs."""
    names = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        public = not any(part.startswith("_") for part in name.split("."))
        if name.count(".") <= 1 and public and f"{os.sep}site-packages{os.sep}" in file:
            names.append(name)
    return sorted(names)
