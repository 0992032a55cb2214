"""How checkpoints are validated in the background, while training continues."""

import dataclasses
from typing import Any, Dict, Optional, Protocol

from paceline._native import native
from paceline.train._settings import (
    Settings,
    check_number,
    check_options,
    check_type,
    declared,
    own,
    plain,
    refusal,
    suggesting,
)
from paceline.train.checkpoint import Checkpoint


class ValidationFn(Protocol):
    """A function that evaluates a published checkpoint; the metrics that it returns are added to the checkpoint's."""

    def __call__(self, checkpoint: Checkpoint, **kwargs: Any) -> Dict[str, Any]: ...


@suggesting
@dataclasses.dataclass
class ValidationTaskConfig(Settings, declared_by=native.validation_task_config):
    """What one validation of a checkpoint gets."""

    fn_kwargs: Optional[Dict[str, Any]] = own(None, "Keyword arguments of the validation function, over those of the trainer")
    timeout_s: Optional[float] = declared()

    def __post_init__(self) -> None:
        check_type("ValidationTaskConfig.fn_kwargs", self.fn_kwargs, dict)
        self.fn_kwargs = self.fn_kwargs or {}
        super().__post_init__()

    def _to_settings(self) -> Dict[str, Any]:
        return {**super()._to_settings(), "config": plain(self.fn_kwargs or {})}


@dataclasses.dataclass
class ValidationConfig:
    """Which function validates checkpoints in the background, while training continues.

    Args:
        fn: ``fn(checkpoint, **kwargs) -> dict``; the metrics that it returns are added to the checkpoint's. Runs in a
            separate process.
        task_config: The settings of every validation, unless its report says otherwise.
        ray_remote_kwargs: No effect: a validation is a process on this machine.
        max_in_flight: How many validations run at once; the others wait.
    """

    fn: ValidationFn
    task_config: Optional[ValidationTaskConfig] = None
    ray_remote_kwargs: Optional[dict] = None
    max_in_flight: int = 1

    def __post_init__(self):
        if not callable(self.fn):
            raise refusal("ValidationConfig.fn", self.fn, "a function of (checkpoint, **kwargs)")
        check_type("ValidationConfig.task_config", self.task_config, ValidationTaskConfig)
        check_type("ValidationConfig.ray_remote_kwargs", self.ray_remote_kwargs, dict)
        check_number("ValidationConfig.max_in_flight", self.max_in_flight, int, 1)
        check_options("ValidationConfig", ValidationConfig, vars(self))
        self.task_config = self.task_config or ValidationTaskConfig()
        self.ray_remote_kwargs = self.ray_remote_kwargs or {}
