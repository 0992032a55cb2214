"""Functions of the user that the driver calls during a run."""

import dataclasses
import posixpath
import traceback
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional

from paceline._exception_text import text_of
from paceline._filesystem import Place, path_of
from paceline.train._exceptions import WorkerExceptions
from paceline.train._metrics import decoded
from paceline.train.checkpoint import Checkpoint

if TYPE_CHECKING:
    from paceline.train.backend import BackendConfig
    from paceline.train.config import RunConfig, ScalingConfig


@dataclasses.dataclass(frozen=True)
class RunContext:
    """What a callback learns about its run.

    Attributes:
        run_id: Another for each trainer.
        run_config: The trainer's.
        train_loop_config: The trainer's.
        scaling_config: The trainer's.
        backend_config: The trainer's.
        datasets: The trainer's.
        dataset_config: The trainer's.
    """

    _native: Any = dataclasses.field(repr=False)
    run_id: str
    run_config: "RunConfig"
    train_loop_config: Optional[Dict[str, Any]] = dataclasses.field(repr=False)  # is the user's, and may be large
    scaling_config: "ScalingConfig"
    backend_config: "BackendConfig"
    datasets: Dict[str, Any] = dataclasses.field(repr=False)
    dataset_config: Any = dataclasses.field(repr=False)
    _place: Optional[Place] = dataclasses.field(default=None, repr=False)

    @property
    def name(self) -> str:
        """The run's name."""
        return self._native.name

    @property
    def path(self) -> str:
        """The run's folder, as ``Result.path`` has it."""
        return posixpath.join(self._place.path, self.name) if self._place else path_of(self.uri)

    @property
    def uri(self) -> str:
        """The run's folder, as ``Result.uri`` has it."""
        return self._native.path

    @property
    def attempt(self) -> int:
        """Which attempt of the run this is, from 1."""
        return self._native.attempt

    @property
    def world_size(self) -> int:
        """Workers in the attempt."""
        return self._native.world_size

    def stop(self, reason: str) -> None:
        """Ends the run as finished, with its last checkpoint, when the callback returns."""
        self._native.stop(reason)

    def get_run_config(self) -> "RunConfig":
        """The trainer's ``run_config``."""
        return self.run_config


class UserCallback:
    """Derive from it, override the functions you need, and put an object into ``RunConfig(callbacks=[…])``.

    The thread that called ``fit()`` calls callbacks one after another. A slow callback delays the controller, not the
    workers. An exception from a callback ends the run with an error, but never hides an earlier error.

    Example:
        >>> class Patience(UserCallback):
        ...     def after_report(self, run_context, metrics, checkpoint):
        ...         if metrics[0]["loss"] < 0.1:
        ...             run_context.stop("the loss is low enough")
    """

    def after_start(self, run_context: RunContext) -> None:
        """All workers of an attempt have joined and begin to train."""

    def after_report(
        self, run_context: RunContext, metrics: List[Dict[str, Any]], checkpoint: Optional[Checkpoint]
    ) -> None:
        """Every rank has made this report. ``metrics`` has those of each rank; ``checkpoint`` is None if none was
        published.
        """

    def after_exception(self, run_context: RunContext, worker_exceptions: Dict[int, Exception]) -> None:
        """Workers have failed. The exceptions are by rank: the train loop's own where they can be unpickled, with the
        worker's traceback as ``__cause__``, else a RuntimeError. Errors of the whole group are under -1.
        """

    def after_finish(self, run_context: RunContext, state: str, error: str, stop_reason: str) -> None:
        """The run has ended as ``"finished"``, ``"errored"`` or ``"aborted"``. This is the last call."""


class Adapter:
    """What the extension calls: plain values become what users see."""

    def __init__(self, callback: UserCallback, run_context: Callable[[Any], RunContext], exceptions: WorkerExceptions):
        self._callback = callback
        self._run_context = run_context
        self._exceptions = exceptions
        self.name = type(callback).__qualname__

    @staticmethod
    def text_of(error):
        """What the callback has raised, and where."""
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__qualname__}: {text_of(error)} (at {last.name}, {last.filename}:{last.lineno})"

    def after_start(self, run):
        self._callback.after_start(self._run_context(run))

    def after_report(self, run, metrics, checkpoint):
        context = self._run_context(run)
        self._callback.after_report(context, list(map(decoded, metrics)), Checkpoint._from_native(checkpoint, context._place))

    def after_exception(self, run, errors):
        self._callback.after_exception(self._run_context(run), self._exceptions.of(errors))

    def after_finish(self, run, state, error, stop_reason):
        self._callback.after_finish(self._run_context(run), state, error, stop_reason)
