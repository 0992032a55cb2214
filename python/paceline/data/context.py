"""DataContext: how datasets are read in this process."""

import copy
import dataclasses
import os
from typing import Any, Dict, Optional


@dataclasses.dataclass
class ExecutionResources:
    """Limits of what reading may use; None: not limited."""

    cpu: Optional[float] = None
    gpu: Optional[float] = None
    object_store_memory: Optional[float] = None
    memory: Optional[float] = None


@dataclasses.dataclass
class ExecutionOptions:
    """How a dataset is read.

    Args:
        resource_limits: ``cpu`` is the number of threads that read and decode.
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

    def _threads(self) -> int:
        limit = self.execution_options.resource_limits.cpu
        return max(1, int(limit if limit is not None else os.cpu_count() or 1))
