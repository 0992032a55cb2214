"""What users may hook into a run, in the driver."""

import traceback
from typing import Any, Dict, List, Optional

from paceline.train.checkpoint import Checkpoint


class UserCallback:
    """Derive, override what is of interest, put an object into ``RunConfig(callbacks=[…])``.

    The calls come one after another from the thread that called ``fit()``; a slow callback delays the controller, not
    the workers. An exception from a callback ends the run with an error; it never hides an error that is there already.
    ``run_context`` has ``name``, ``path``, ``attempt``, ``world_size`` and ``stop(reason)``, which ends the run as
    finished.

    Example:
        >>> class Patience(UserCallback):
        ...     def after_report(self, run_context, metrics, checkpoint):
        ...         if metrics[0]["loss"] < 0.1:
        ...             run_context.stop("the loss is low enough")
    """

    def after_start(self, run_context: Any) -> None:
        """All workers of an attempt have joined and begin to train."""

    def after_report(self, run_context: Any, metrics: List[Dict[str, Any]], checkpoint: Optional[Checkpoint]) -> None:
        """Every rank has made this report: its metrics by rank, and the checkpoint if one was published."""

    def after_exception(self, run_context: Any, worker_exceptions: Dict[int, Exception]) -> None:
        """Workers have failed: an exception by rank; what concerns the whole group is under -1."""

    def after_finish(self, run_context: Any, state: str, error: str, stop_reason: str) -> None:
        """The run has ended as ``"finished"``, ``"errored"`` or ``"aborted"``; the last call."""


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
