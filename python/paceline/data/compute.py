"""How many processes call a step's function: Ray's ``compute=`` of map(), map_batches() and their like."""

import dataclasses
from typing import Optional


@dataclasses.dataclass
class TaskPoolStrategy:
    """For functions.

    Args:
        size: How many processes at most.
    """

    size: Optional[int] = None

    def __post_init__(self) -> None:
        _check("TaskPoolStrategy.size", self.size)


@dataclasses.dataclass
class ActorPoolStrategy:
    """For classes, whose objects stay.

    Args:
        size: How many processes; instead of the three that follow.
        min_size: How many at least.
        max_size: How many at most.
        initial_size: How many at first.
        max_tasks_in_flight_per_actor: Taken for Ray's scripts.
        max_concurrent_calls_per_actor: Taken for Ray's scripts.
        enable_true_multi_threading: Taken for Ray's scripts.
    """

    size: Optional[int] = dataclasses.field(default=None, kw_only=True)
    min_size: Optional[int] = dataclasses.field(default=None, kw_only=True)
    max_size: Optional[float] = dataclasses.field(default=None, kw_only=True)
    initial_size: Optional[int] = dataclasses.field(default=None, kw_only=True)
    max_tasks_in_flight_per_actor: Optional[int] = dataclasses.field(default=None, kw_only=True)
    max_concurrent_calls_per_actor: Optional[int] = dataclasses.field(default=None, kw_only=True)
    enable_true_multi_threading: Optional[bool] = dataclasses.field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _check("ActorPoolStrategy.size", self.size)
        if self.size is not None:
            if (self.min_size, self.max_size, self.initial_size) != (None, None, None):
                raise ValueError("ActorPoolStrategy takes either size, or min_size, max_size and initial_size")
            self.min_size = self.max_size = self.initial_size = self.size
        self.min_size = 1 if self.min_size is None else self.min_size
        self.max_size = float("inf") if self.max_size is None else self.max_size
        self.initial_size = self.min_size if self.initial_size is None else self.initial_size
        _check("ActorPoolStrategy.min_size", self.min_size)
        if not self.min_size <= self.initial_size <= self.max_size:
            raise ValueError(
                f"ActorPoolStrategy has min_size {self.min_size}, initial_size {self.initial_size} and max_size "
                f"{self.max_size}; wanted: in this order"
            )


def _check(name, size):
    if size is not None and size < 1:
        raise ValueError(f"{name} is {size}; allowed: 1 or more")
