"""DataContext: how datasets are read in this process."""

import copy
import dataclasses
import os
from typing import Any, Dict, Optional

_READ_AHEAD_BYTES = 256 << 20


@dataclasses.dataclass
class ExecutionResources:
    """What reading may use.

    Args:
        cpu: Threads that read and decode; by default as many as there are cores for each worker of the machine.
        gpu: Taken for Ray's scripts.
        object_store_memory: As memory, where that is not given.
        memory: Bytes of blocks that are read ahead, by default 256 MiB. What is being decoded or mixed, and batches that
            a program keeps, come on top of it.
    """

    cpu: Optional[float] = None
    gpu: Optional[float] = None
    object_store_memory: Optional[float] = None
    memory: Optional[float] = None


@dataclasses.dataclass
class ExecutionOptions:
    """How a dataset is read.

    Args:
        resource_limits: Threads and memory.
        preserve_order: Taken for Ray's scripts: the order is always kept.
        locality_with_output: Taken for Ray's scripts.
        verbose_progress: Taken for Ray's scripts.
    """

    resource_limits: ExecutionResources = dataclasses.field(default_factory=ExecutionResources)
    preserve_order: bool = True
    locality_with_output: bool = False
    verbose_progress: bool = False


class DataContext:
    """How datasets are read in this process: ``DataContext.get_current()`` is the one that counts."""

    _current: Optional["DataContext"] = None

    def __init__(self) -> None:
        self.execution_options = ExecutionOptions()
        self._others: Dict[str, Any] = {}

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

    def _limits(self, readers: int) -> Dict[str, int]:
        """What one of `readers` on this machine may use."""
        limits = self.execution_options.resource_limits
        threads = limits.cpu if limits.cpu is not None else (os.cpu_count() or 1) / readers
        memory = limits.memory or limits.object_store_memory or _READ_AHEAD_BYTES
        return {"threads": max(1, int(threads)), "read_ahead_bytes": int(memory)}
