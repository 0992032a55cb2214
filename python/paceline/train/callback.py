"""Functions of the user that the driver calls during a run."""

import traceback
from typing import Any, Dict, List, Optional

from paceline.train.checkpoint import Checkpoint


class UserCallback:
    """Derive from it, override the functions you need, and put an object into ``RunConfig(callbacks=[…])``.

    The thread that called ``fit()`` calls callbacks one after another. A slow callback delays the controller, not the
    workers. An exception from a callback ends the run with an error, but never hides an earlier error. ``run_context``
    has ``name``, ``path``, ``attempt``, ``world_size`` and ``stop(reason)``, which ends the run as finished.

    Example:
        >>> class Patience(UserCallback):
        ...     def after_report(self, run_context, metrics, checkpoint):
        ...         if metrics[0]["loss"] < 0.1:
        ...             run_context.stop("the loss is low enough")
    """

    def after_start(self, run_context: Any) -> None:
        """All workers of an attempt have joined and begin to train."""

    def after_report(self, run_context: Any, metrics: List[Dict[str, Any]], checkpoint: Optional[Checkpoint]) -> None:
        """Every rank has made this report. ``metrics`` has those of each rank; ``checkpoint`` is None if none was
        published.
        """

    def after_exception(self, run_context: Any, worker_exceptions: Dict[int, Exception]) -> None:
        """Workers have failed. The exceptions are by rank; errors of the whole group are under -1."""

    def after_finish(self, run_context: Any, state: str, error: str, stop_reason: str) -> None:
        """The run has ended as ``"finished"``, ``"errored"`` or ``"aborted"``. This is the last call."""


class Adapter:
    """What the extension calls: plain values become what users see."""

    def __init__(self, callback: UserCallback):
        self._callback = callback
        self.name = type(callback).__qualname__
        self.after_start = callback.after_start
        self.after_finish = callback.after_finish

    @staticmethod
    def text_of(error):
        """What the callback has raised, and where."""
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__qualname__}: {error} (at {last.name}, {last.filename}:{last.lineno})"

    def after_report(self, run_context, metrics, checkpoint):
        self._callback.after_report(run_context, metrics, Checkpoint._from_native(checkpoint))

    def after_exception(self, run_context, errors):
        self._callback.after_exception(run_context, {rank: RuntimeError(text) for rank, text in errors.items()})
