"""What Python does first in a program of `paceline run`, which puts this folder in front of PYTHONPATH.

It makes torch.distributed meet over Paceline's store (paceline_rendezvous.py) as soon as a program imports it, imports
nothing heavy by itself, and hands over to the sitecustomize that would have been imported without it.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
HOOKED = "torch.distributed.rendezvous"


def _load(name, file):
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class _Hook(importlib.abc.MetaPathFinder):
    """Registers Paceline's rendezvous right after the module HOOKED has been executed."""

    def find_spec(self, name, path, target=None):
        if name != HOOKED:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            try:
                _load("paceline_rendezvous", os.path.join(FOLDER, "paceline_rendezvous.py")).register(module)
            except Exception as error:  # a torch that keeps its handlers elsewhere: its own rendezvous works too
                print(f"paceline: torch's own rendezvous is used: {error!r}", file=sys.stderr)

        spec.loader.exec_module = exec_module
        return spec


def _hand_over():
    """Imports the user's own sitecustomize, the one behind this folder in sys.path, as if this one were not there."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != FOLDER]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if "PACELINE_STORE" in os.environ:
    sys.meta_path.insert(0, _Hook())
_hand_over()
