"""What the driver sends to its workers: the train loop with its configuration, pickled by cloudpickle.

Functions and classes of `__main__` and of notebook cells, lambdas and closures are sent as their code; those of modules
are sent by name, and workers find them because they have the driver's `sys.path`. Nothing here is ever stored.
"""

import dataclasses
import importlib
import inspect
import io
import os
import pickle
import sys
import types
from typing import Any, Callable, Optional

import cloudpickle

from paceline import _cells
from paceline._filesystem import Stores


@dataclasses.dataclass(frozen=True)
class Cargo:
    """What the workers of a run need of their driver."""

    train_loop: Callable[[], Any]  # with its configuration bound
    validation: Optional[Callable[..., dict]] = None
    joins_group: bool = False  # torch.distributed's
    datasets: Any = None  # of the trainer (paceline.data._datasets.Datasets), for the data process


def pack(cargo: Cargo, stores: Stores, has_code: bool = False) -> bytes:
    """TypeError naming the variable that cannot be pickled. ``has_code``: workers have a working directory or modules of
    their own, which come before the driver's ``sys.path``."""
    inner = _dumps(cargo)
    # What is inside can only be loaded when the modules it names can be found.
    rest = pickle.dumps((_search_path(), has_code, sys.argv, _cells.known(), inner))
    first = _dumps_stores(stores) if stores.place or stores.added else b""
    return len(first).to_bytes(_LENGTH, "little") + first + rest


def unpack_stores(attachment: memoryview) -> None:
    """Takes over the file systems of the driver, which the process needs before all else."""
    first, _ = _parts_of(attachment)
    if not first:
        return
    path, stores = pickle.loads(first)
    _search(path)
    pickle.loads(stores).take_over()


def unpack(attachment: memoryview) -> Cargo:
    """Loads the cargo that pack() was given, after taking over the driver's sys.path and sys.argv."""
    _, rest = _parts_of(attachment)
    path, has_code, argv, cells, inner = pickle.loads(rest)
    _search(_own_path() + path if has_code else path)
    sys.argv[:] = argv
    _cells.add(cells)
    return pickle.loads(inner)


_LENGTH = 8  # bytes in front, which say how long the part for unpack_stores() is


def _parts_of(attachment):
    length = int.from_bytes(attachment[:_LENGTH], "little")
    return attachment[_LENGTH : _LENGTH + length], attachment[_LENGTH + length :]


def _search(path):
    sys.path[:] = path + [entry for entry in sys.path if entry not in path]


def _own_path():
    return [os.getcwd(), *(entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry)]


def _search_path():
    # "" and relative entries mean the driver's working directory, which is the workers' too.
    return [os.path.abspath(entry) for entry in sys.path]


class Pickler(cloudpickle.Pickler):
    """Modules of classes of their own (torch.ops, lazy packages) travel by name too, and as code the script of a driver
    that multiprocessing has spawned.
    """

    def __init__(self, file):
        super().__init__(file)
        if script := sys.modules.get("__mp_main__"):
            cloudpickle.register_pickle_by_value(script)

    def reducer_override(self, obj):
        if isinstance(obj, types.ModuleType) and type(obj) is not types.ModuleType:
            parent, _, name = obj.__name__.rpartition(".")
            if sys.modules.get(obj.__name__) is obj:
                return importlib.import_module, (obj.__name__,)
            if getattr(sys.modules.get(parent), name, None) is obj:
                return getattr, (sys.modules[parent], name)
        return super().reducer_override(obj)


def _dumps(cargo):
    buffer = io.BytesIO()
    try:
        Pickler(buffer).dump(cargo)
        return buffer.getvalue()
    except Exception as error:
        culprit = find_culprit(cargo)
        message = f"the train loop cannot be sent to the workers: {type(error).__name__}: {error}"
        raise TypeError(f"{message}; what cannot be pickled is {culprit}" if culprit else message) from error


def _dumps_stores(stores):
    buffer = io.BytesIO()
    try:
        Pickler(buffer).dump(stores)
    except Exception as error:
        given = stores.place.filesystem if stores.place else next(iter(stores.added.values()))
        given = getattr(getattr(given, "handler", given), "fs", None) or getattr(given, "handler", given)  # the user's
        raise TypeError(
            f"the file system ({type(given).__module__}.{type(given).__qualname__}) cannot be sent to the workers: "
            f"{type(error).__name__}: {error}; give one that can be pickled, or the location as a URI"
        ) from error
    return pickle.dumps((_search_path(), buffer.getvalue()))


def _can_travel(value) -> bool:
    try:
        Pickler(io.BytesIO()).dump(value)
        return True
    except Exception:
        return False


def find_culprit(value, name="the train loop", depth=0) -> str:
    """The innermost named part of `value` that cannot be pickled; "" where there is none."""
    if _can_travel(value):
        return ""
    for part_name, part in _parts(value) if depth < 10 else ():
        culprit = find_culprit(part, part_name, depth + 1)
        if culprit:
            return culprit
    return f"{name} ({type(value).__module__}.{type(value).__qualname__})"


def _parts(value):
    if isinstance(value, Cargo):
        return [("the train loop", value.train_loop), ("the validation function", value.validation)]
    if inspect.isfunction(value):
        names = inspect.getclosurevars(value)
        return [(f"the variable {key!r} of {value.__qualname__}", part)
                for part_of in (names.nonlocals, names.globals) for key, part in part_of.items()]
    if inspect.ismethod(value):
        return [("self", value.__self__)]
    if hasattr(value, "func") and hasattr(value, "args"):  # functools.partial
        return [("the train loop", value.func), *((f"argument {i}", part) for i, part in enumerate(value.args))]
    if isinstance(value, dict):
        return [(f"the entry {key!r}", part) for key, part in value.items()]
    if isinstance(value, (list, tuple, set)):
        return [(f"element {i}", part) for i, part in enumerate(value)]
    return [(f"the attribute {key!r} of an object of type {type(value).__qualname__}", part)
            for key, part in getattr(value, "__dict__", {}).items()]
