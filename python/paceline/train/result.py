"""Result: what is in a run's folder."""

import os
from typing import Any, Dict, List, Optional, Tuple, Union

import pyarrow

from paceline._filesystem import Place, filesystem_of, path_of, place_of
from paceline._native import native
from paceline.train._values import decoded
from paceline.train.checkpoint import Checkpoint

StopCause = native.StopCause
FailureKind = native.FailureKind


class Result:
    """The state of a run as its folder has it: fit() returns it, from_path() reads it later.

    Attributes:
        metrics: The last metrics of rank 0 (combined over the ranks if report() asked for that); None if nothing was
            reported.
        checkpoint: The latest checkpoint.
        error: The exception that ended the run, None when it finished.
        path: The run's folder in ``filesystem``: a local path, or ``bucket/runs/run``.
        uri: The same for people and the command line: a local path, or a URI without the keys that it was given with.
        best_checkpoints: The best of the kept checkpoints with their metrics, the best last (without a score: the latest).
            from_path() also lists the latest if it is none of the best.
        return_value: What rank 0's train loop returned. If it is not made of plain values, only fit() has it.
        state: ``"finished"``, ``"errored"``, ``"aborted"``, or the current state of an unfinished run.
        stop_reason: Why the run was stopped, None when it was not.
        stop_cause: Who stopped it (:class:`StopCause`), None when nobody did.
        failure_kind: What failed first (:class:`FailureKind`), None when nothing did.
        exit_code: The exit code for a program that does nothing but the run: 0 when the run has finished; when a signal
            stopped it, what shells use for that signal, 130 after Ctrl-C and 143 after SIGTERM; otherwise 1.
    """

    def __init__(self, result, trusted: bool = False, place: Optional[Place] = None):
        self._native = result
        self._place = place
        self.metrics: Optional[Dict[str, Any]] = result.metrics or None
        self.checkpoint = Checkpoint._from_native(result.checkpoint, place)
        self.error: Optional[Exception] = RuntimeError(result.error) if result.error else None
        self.path: str = path_of(result.path_with_credentials, place)
        self.uri: str = result.path
        self.best_checkpoints: List[Tuple[Checkpoint, Dict[str, Any]]] = [
            (Checkpoint._from_native(checkpoint, place), metrics) for checkpoint, metrics in result.best_checkpoints
        ]
        self.return_value: Any = decoded(result.return_value, trusted)
        self.state: str = result.state
        self.stop_reason: Optional[str] = result.stop_reason
        self.stop_cause: Optional[StopCause] = result.stop_cause
        self.failure_kind: Optional[FailureKind] = result.failure_kind
        self.exit_code: int = result.exit_code

    @property
    def filesystem(self):
        """The pyarrow file system that ``path`` is in; it has the keys that were given."""
        return filesystem_of(self._native.path_with_credentials, self._place)

    @property
    def config(self) -> Dict[str, Any]:
        """Not supported: you passed the configuration to the trainer."""
        raise DeprecationWarning("Result.config is not supported any more; keep what you gave as train_loop_config")

    @property
    def metrics_history(self) -> pyarrow.Table:
        """Every report of every rank: columns report, attempt, rank, time, checkpoint, and one per metric."""
        return pyarrow.table(_Stream(self._native.metrics_history()))

    @property
    def metrics_dataframe(self):
        """Rank 0's reports, a row each: a pandas DataFrame where pandas is installed, else a pyarrow Table."""
        history = self.metrics_history
        import pyarrow.compute  # 0.15 s, which the start of every program would pay

        table = history.filter(pyarrow.compute.equal(history["rank"], 0)) if history.num_rows else history
        table = _with_metrics_first(table)
        try:
            return table.to_pandas()
        except ImportError:
            return table

    def get_best_checkpoint(self, metric: str, mode: str) -> Optional[Checkpoint]:
        """The kept checkpoint whose ``metric`` is highest (``mode`` ``"max"``) or lowest (``"min"``).

        Raises:
            ConfigError: If no kept checkpoint has the metric (names the metrics that there are), or for another ``mode``.
                It is a RuntimeError and a ValueError, Ray Train's for the one and for the other.
        """
        return Checkpoint._from_native(self._native.get_best_checkpoint(metric, mode), self._place)

    @classmethod
    def from_path(cls, path: Union[str, os.PathLike], storage_filesystem: Optional[Any] = None) -> "Result":
        """Reads the result of a run from its folder alone, local or in an object store (``s3://…``).

        Args:
            path: The run's folder: a local path, a URI, or a path in ``storage_filesystem``.
            storage_filesystem: The file system of ``path``: pyarrow's or fsspec's.

        Raises:
            StorageError: When there is no run in it; it is a RuntimeError, as in Ray Train, and an OSError too.
        """
        place = None if storage_filesystem is None else place_of(os.fspath(path), storage_filesystem)
        return cls(native.Result.from_path(place.location if place else os.fspath(path).rstrip("/")), place=place)

    def __repr__(self) -> str:
        return (
            f"Result(state={self.state!r}, metrics={self.metrics!r}, checkpoint={self.checkpoint!r}, path={self.uri!r})"
        )


def _with_metrics_first(table):
    """Metrics that are called as columns of the history are in the place of those."""
    theirs = {name: name.removeprefix("metrics/") for name in table.column_names if name.startswith("metrics/")}
    taken = [name for name in theirs.values() if name in table.column_names]
    table = table.drop_columns(taken)
    return table.rename_columns([theirs[name] if theirs.get(name) in taken else name for name in table.column_names])


class _Stream:
    """What pyarrow reads: the protocol of Arrow's C stream interface."""

    def __init__(self, capsule):
        self._capsule = capsule

    def __arrow_c_stream__(self, requested_schema=None):
        return self._capsule
