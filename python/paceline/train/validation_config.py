"""How checkpoints are validated on the side, while training goes on."""

import dataclasses
from typing import Any, Dict, Optional, Protocol

from paceline.train._settings import plain
from paceline.train.checkpoint import Checkpoint


class ValidationFn(Protocol):
    """A function that looks at a published checkpoint; what it returns joins the checkpoint's metrics."""

    def __call__(self, checkpoint: Checkpoint, **kwargs: Any) -> Dict[str, Any]: ...


@dataclasses.dataclass
class ValidationTaskConfig:
    """What one validation of a checkpoint gets.

    Args:
        fn_kwargs: Keyword arguments of the validation function, over those of the trainer.
        timeout_s: Seconds after which it is ended and counts as timed out; None: without limit.
    """

    fn_kwargs: Optional[Dict[str, Any]] = None
    timeout_s: Optional[float] = None

    def __post_init__(self):
        if self.timeout_s is not None and self.timeout_s <= 0:
            raise ValueError(f"ValidationTaskConfig.timeout_s is {self.timeout_s}; allowed: more than 0, or None")

    def _to_settings(self) -> dict:
        return {"config": plain(self.fn_kwargs or {}), "timeout_s": self.timeout_s}


@dataclasses.dataclass
class ValidationConfig:
    """Which function validates checkpoints on the side, while training goes on.

    Args:
        fn: ``fn(checkpoint, **kwargs) -> dict``; what it returns joins the checkpoint's metrics. Runs in a process of
            its own.
        task_config: What every validation gets where its report says nothing else.
        ray_remote_kwargs: Accepted and ignored: validations need no cluster.
        max_in_flight: Validations at once; the others wait.
    """

    fn: ValidationFn
    task_config: Optional[ValidationTaskConfig] = None
    ray_remote_kwargs: Optional[dict] = None
    max_in_flight: int = 1

    def __post_init__(self):
        if not callable(self.fn):
            raise ValueError(f"ValidationConfig.fn is {self.fn!r}; allowed: a function of (checkpoint, **kwargs)")
        self.task_config = self.task_config or ValidationTaskConfig()
