"""A worker's `__main__`: not the module that Python was started with, but what the train loop has of the driver's.

Functions and classes of the driver's script came to the worker as their code. So that they can be pickled here too
(`torch.save` of a whole model), `__main__` has those that the train loop uses. Children that multiprocessing spawns, as
`DataLoader(multiprocessing_context="spawn")` does, get them as code: they need not run the script, which would start
another run where it does not begin with `if __name__ == "__main__"`.
"""

import functools
import pickle
import sys
import types
from multiprocessing.reduction import ForkingPickler
from typing import Any, ClassVar, Dict, Optional

import cloudpickle

NAMES = ("__main__", "__mp_main__")  # the second where the driver is itself a process that multiprocessing has spawned

_replaced: Optional[types.ModuleType] = None  # kept alive


class _Main(types.ModuleType):
    """Without `__file__` and a name in `__spec__`, by which a child would execute it."""

    names: ClassVar[Dict[str, Any]] = {}  # the train loop's globals, if it came from the driver's `__main__`

    def __getattr__(self, name):
        if name.startswith("__") or name not in type(self).names:
            raise AttributeError(f"module '__main__' has no attribute {name!r}")
        return type(self).names[name]


def take_place() -> None:
    """In a worker, before anything of the driver's is unpickled."""
    global _replaced
    _replaced = sys.modules["__main__"]  # may be what is being executed
    main = _Main("__main__", "The driver's, as far as the train loop uses it.")
    sys.modules.update(dict.fromkeys(NAMES, main))
    _send_as_code()


def use_names_of(train_loop) -> None:
    """`__main__` has what this function, which has come from the driver, uses of it."""
    while isinstance(train_loop, functools.partial):
        inner = [part for part in train_loop.args if callable(part)]
        train_loop = inner[-1] if inner else train_loop.func
    function = getattr(train_loop, "__func__", train_loop)
    if getattr(function, "__module__", None) in NAMES:
        _Main.names = getattr(function, "__globals__", {})


def _send_as_code():
    ForkingPickler.reducer_override = _reduce


def _reduce(self, thing):
    if isinstance(thing, (types.FunctionType, type)) and thing.__module__ in NAMES:
        return _arrived, (cloudpickle.dumps(thing),)
    return NotImplemented


def _arrived(code):
    _send_as_code()  # what the child sends back, too
    return pickle.loads(code)
