"""DataContext: how datasets are read in this process."""

import contextlib
import copy
import dataclasses
import math
import numbers
import os
from typing import Any, Dict, Iterator, Literal, Optional

from paceline import _absent, _notices

_READ_AHEAD_BYTES = 256 << 20
_CORES = os.cpu_count() or 1  # asked once: the answer comes from a file, and each epoch begins with it


@dataclasses.dataclass
class ExecutionResources:
    """What reading may use.

    Args:
        cpu: Threads that read and decode; by default as many as there are cores for each worker of the machine.
        gpu: Taken for Ray's scripts.
        object_store_memory: As memory, where that is not given.
        memory: Bytes of blocks that are read ahead, of what is being decoded or mixed, and of batches, by default
            256 MiB. Batches that a program keeps count up to half of it.
    """

    cpu: Optional[float] = None
    gpu: Optional[float] = None
    object_store_memory: Optional[float] = None
    memory: Optional[float] = None

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, numbers.Real):
                raise TypeError(f"ExecutionResources.{field.name} is {value!r}; wanted: a number, memory in bytes")
            if not float(value) >= 0:
                raise ValueError(f"ExecutionResources.{field.name} is {value!r}; wanted: a number from 0 on")

    @classmethod
    def for_limits(cls, cpu: Optional[float] = None, gpu: Optional[float] = None,
                   object_store_memory: Optional[float] = None, memory: Optional[float] = None) -> "ExecutionResources":
        """Of limits; what is None has none."""
        return cls(cpu, gpu, object_store_memory, memory)

    def copy(self, cpu: Optional[float] = None, gpu: Optional[float] = None, memory: Optional[float] = None,
             object_store_memory: Optional[float] = None) -> "ExecutionResources":
        """With some of them changed."""
        given = {"cpu": cpu, "gpu": gpu, "memory": memory, "object_store_memory": object_store_memory}
        return dataclasses.replace(self, **{name: value for name, value in given.items() if value is not None})


@dataclasses.dataclass
class ExecutionOptions:
    """How a dataset is read.

    Args:
        resource_limits: Threads and memory.
        exclude_resources: Taken for Ray's scripts.
        preserve_order: Taken for Ray's scripts: the order is always kept.
        actor_locality_enabled: Taken for Ray's scripts.
        verbose_progress: Taken for Ray's scripts.
        label_selector: Taken for Ray's scripts.
        locality_with_output: Taken for Ray's older scripts.
        functions: What calls functions of yours: "processes" of their own, or "threads" of this process, one call at a
            time (docs/data.md, "Functions").
    """

    resource_limits: ExecutionResources = dataclasses.field(default_factory=ExecutionResources)
    exclude_resources: Optional[ExecutionResources] = None
    preserve_order: bool = True
    actor_locality_enabled: bool = True
    verbose_progress: Optional[bool] = None
    label_selector: Optional[Dict[str, str]] = None
    locality_with_output: bool = False
    functions: Literal["processes", "threads"] = "processes"

    def is_resource_limits_default(self) -> bool:
        """Whether nothing is limited."""
        return self.resource_limits == ExecutionResources()

    def validate(self) -> None:
        """Ray's check, which always passes: no resources are excluded."""

    def _limits(self, readers: int) -> Dict[str, int]:
        """What one of `readers` on this machine may use."""
        limits = self.resource_limits
        cores = _CORES / readers
        threads = cores if limits.cpu is None or math.isinf(limits.cpu) else limits.cpu
        given = (value for value in (limits.memory, limits.object_store_memory) if value and not math.isinf(value))
        memory = next(given, _READ_AHEAD_BYTES)
        return {"threads": max(1, int(threads)), "read_ahead_bytes": int(memory)}


class DataContext:
    """How datasets are read in this process: ``DataContext.get_current()`` is the one that counts.

    What else Ray has in it can be set, with a notice that it has no effect.
    """

    _current: Optional["DataContext"] = None

    def __init__(self) -> None:
        self.execution_options = ExecutionOptions()
        #: Steps that are made from now on leave out bad rows, in so many blocks at most; -1: in any number, 0: in none.
        self.max_errored_blocks = 0
        self._others: Dict[str, Any] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        if known := _absent.ROWS.get(f"data.DataContext.{name}"):
            _notices.give_once(f"DataContext.{name} has no effect: {known[0]}")
        super().__setattr__(name, value)

    @staticmethod
    @contextlib.contextmanager
    def current(context: "DataContext") -> Iterator[None]:
        """While the block runs, `context` is the one that counts."""
        former = DataContext.get_current()
        DataContext._set_current(context)
        try:
            yield
        finally:
            DataContext._set_current(former)

    def get_config(self, key: str, default: Any = None) -> Any:
        """What a program has kept here by set_config()."""
        return self._others.get(key, default)

    def set_config(self, key: str, value: Any) -> None:
        """Keeps something of the program's own."""
        self._others[key] = value

    def remove_config(self, key: str) -> None:
        """Forgets it."""
        self._others.pop(key, None)

    @staticmethod
    def get_current() -> "DataContext":
        """The process's own; made when it is asked for."""
        if DataContext._current is None:
            DataContext._current = DataContext()
        return DataContext._current

    @staticmethod
    def _set_current(context: "DataContext") -> None:
        DataContext._current = context

    def copy(self) -> "DataContext":
        """One with the same options."""
        return copy.deepcopy(self)


DatasetContext = DataContext  # Ray's older name
_absent.explain(__name__)
