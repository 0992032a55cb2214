"""Result: what is in a run's folder."""

import dataclasses
import os
from typing import Any, Dict, List, Optional, Tuple, Union, cast

import pyarrow

from paceline._filesystem import Place, filesystem_of, given, kind_of, path_of, place_of
from paceline._native import native
from paceline.train import _values
from paceline.train._metrics import decoded, encoded
from paceline.train.checkpoint import Checkpoint

StopCause = native.StopCause
FailureKind = native.FailureKind


@dataclasses.dataclass
class Result:
    """The state of a run as its folder has it: fit() returns it, from_path() reads it later.

    Attributes:
        metrics: The last metrics of rank 0 (combined over the ranks if report() asked for that), with those of the validation
            of that report's checkpoint; None if nothing was reported.
        checkpoint: The latest checkpoint.
        error: The exception that ended the run, None when it finished.
        path: The run's folder in ``filesystem``: a local path, or ``bucket/runs/run``.
        metrics_dataframe: Rank 0's metrics, a row for each report and a column for each metric, with those of the validation
            of the report's checkpoint while that is kept: a pandas DataFrame where pandas is installed, else a pyarrow
            Table, whose column has texts where Arrow has no type for the values; None if nothing was reported. Read from the
            run's folder when it is asked for.
        best_checkpoints: The best of the kept checkpoints with their metrics, the best last (without a score: the latest).
            from_path() also lists the latest if it is none of the best.
        return_value: What rank 0's train loop returned. If it is not made of plain values, only fit() has it.
        state: ``"finished"``, ``"errored"``, ``"aborted"``, or the current state of an unfinished run.
        stop_reason: Why the run was stopped, None when it was not.
        stop_cause: Who stopped it (:class:`StopCause`), None when nobody did.
        failure_kind: What failed first (:class:`FailureKind`), None when nothing did.
        exit_code: The exit code for a program that does nothing but the run: 0 when the run has finished; when a signal
            stopped it, what shells use for that signal, 130 after Ctrl-C and 143 after SIGTERM; 75 when nodes were lost or
            missing, so that another try may succeed; otherwise 1.
    """

    metrics: Optional[Dict[str, Any]]
    checkpoint: Optional[Checkpoint]
    error: Optional[Exception]
    path: str
    metrics_dataframe: Any = dataclasses.field(default=None, compare=False)
    best_checkpoints: Optional[List[Tuple[Checkpoint, Dict[str, Any]]]] = None
    _storage_filesystem: Optional[Any] = None
    return_value: Any = None
    state: str = dataclasses.field(init=False, default="finished")
    stop_reason: Optional[str] = dataclasses.field(init=False, default=None)
    stop_cause: Optional[StopCause] = dataclasses.field(init=False, default=None)
    failure_kind: Optional[FailureKind] = dataclasses.field(init=False, default=None)
    exit_code: int = dataclasses.field(init=False, default=0)

    # No fields, so that the others can be copied: what the core has read from the folder, and where that is.
    _native = cast(Any, None)
    _place = cast(Optional[Place], None)

    def __post_init__(self) -> None:
        if self.error is not None:
            self.state, self.exit_code = "errored", 1

    @classmethod
    def _of(cls, result, trusted: bool = False, place: Optional[Place] = None) -> "Result":
        """`trusted`: from this driver's own workers."""
        made = cls(
            metrics=decoded(result.metrics) or None,
            checkpoint=Checkpoint._from_native(result.checkpoint, place),
            error=RuntimeError(result.error) if result.error else None,
            path=path_of(result.path_with_credentials, place),
            best_checkpoints=[
                (Checkpoint._from_native(one, place), decoded(metrics)) for one, metrics in result.best_checkpoints
            ],
            return_value=_values.decoded(result.return_value, trusted),
        )
        made._native, made._place = result, place
        made.state = result.state
        made.stop_reason = result.stop_reason
        made.stop_cause = result.stop_cause
        made.failure_kind = result.failure_kind
        made.exit_code = result.exit_code
        return made

    # What the core has read stays in this process; the copy reads it again, if the folder is there still.
    def __getstate__(self) -> Dict[str, Any]:
        location = None if self._native is None else self._native.path_with_credentials
        return {**self.__dict__, "_native": location}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self._native is None:
            return
        if self._place is not None:  # the file system has another name in each process
            self._place = place_of(self.path, self._place.filesystem)
        try:
            self._native = native.Result.from_path(self._native if self._place is None else self._place.location)
        except native.StorageError:
            self._native = None

    @property
    def uri(self) -> str:
        """The run's folder for people and the command line: a local path, or a URI without the keys it was given with."""
        return self.path if self._native is None else self._native.path

    @property
    def filesystem(self):
        """The pyarrow file system that ``path`` is in; it has the keys that were given."""
        if self._native is None:
            return self._storage_filesystem or filesystem_of(self.path)
        return filesystem_of(self._native.path_with_credentials, self._place)

    def _kind(self) -> str:
        if self._native is None:
            return self.filesystem.type_name
        return kind_of(self._native.path_with_credentials, self._place)

    @property
    def config(self) -> Dict[str, Any]:
        """Not supported: you passed the configuration to the trainer."""
        raise DeprecationWarning("Result.config is not supported any more; keep what you gave as train_loop_config")

    @property
    def metrics_history(self) -> pyarrow.Table:
        """Every report of every rank: columns report, attempt, rank, time, checkpoint, and one per metric.

        Metrics are in JSON's form, as the folder has them: nested names are joined by ``/``, and what JSON cannot hold is
        a text such as ``["$date","2026-11-24"]``.
        """
        if self._native is None:
            raise native.StorageError("this Result was not read from a run's folder; Result.from_path(path) has the history")
        return pyarrow.table(_Stream(self._native.metrics_history()))

    def _read_dataframe(self) -> Any:
        reports = [decoded(metrics) for metrics in self._native.reported_metrics()] if self._native is not None else []
        if not any(reports):
            return None
        reports = [{name: _in_utf8(value) for name, value in metrics.items()} for metrics in reports]
        try:
            import pandas
        except ImportError:
            return _table_of(reports)
        return pandas.DataFrame(reports)

    def get_best_checkpoint(self, metric: str, mode: str) -> Optional[Checkpoint]:
        """The kept checkpoint whose ``metric`` is highest (``mode`` ``"max"``) or lowest (``"min"``).

        Raises:
            ConfigError: If no kept checkpoint has the metric as a number other than NaN (names the metrics that there are),
                or for another ``mode``. It is a RuntimeError and a ValueError, Ray Train's for the one and for the other.
        """
        kept = self.best_checkpoints or []
        return kept[native.index_of_best([encoded(metrics) for _, metrics in kept], metric, mode, str(self.uri))][0]

    @classmethod
    def from_path(cls, path: Union[str, os.PathLike], storage_filesystem: Optional[Any] = None) -> "Result":
        """Reads the result of a run from its folder alone, local or in an object store (``s3://…``).

        Args:
            path: The run's folder: a local path, a URI, or a path in ``storage_filesystem``.
            storage_filesystem: The file system of ``path``: pyarrow's or fsspec's.

        Raises:
            StorageError: When there is no run in it; it is a RuntimeError, as in Ray Train, and an OSError too.
        """
        place = given(os.fspath(path), storage_filesystem)
        return cls._of(native.Result.from_path(place.location if place else os.fspath(path).rstrip("/")), place=place)

    def __repr__(self) -> str:
        """In Ray Train's form; a run that has neither finished nor failed shows its state."""
        shown: Dict[str, Any] = {"state": self.state} if self.error is None and self.state != "finished" else {}
        shown |= {} if self.error is None else {"error": type(self.error).__name__}
        shown |= {"metrics": self.metrics, "path": self.path, "filesystem": self._kind()}
        shown |= {"checkpoint": self.checkpoint}
        return "Result(\n" + ",\n".join(f"  {name}={value!r}" for name, value in shown.items()) + "\n)"


class _Dataframe:
    """Result.metrics_dataframe: what the object was made with, or what the run's folder has."""

    def __get__(self, result, owner=None):
        if result is None:
            return None  # the field's default
        if "metrics_dataframe" not in result.__dict__:
            result.__dict__["metrics_dataframe"] = result._read_dataframe()
        return result.__dict__["metrics_dataframe"]

    def __set__(self, result, value):
        if value is not None:
            result.__dict__["metrics_dataframe"] = value


Result.metrics_dataframe = _Dataframe()


def _in_utf8(value):
    """Texts with lone surrogates have no place in a table."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def _table_of(reports):
    rows = [{str(name): value for name, value in metrics.items()} for metrics in reports]
    names = dict.fromkeys(name for row in rows for name in row)
    return pyarrow.table({name: _column([row.get(name) for row in rows]) for name in names})


def _column(values):
    """Of text where Arrow has no type for all of the values."""
    try:
        return pyarrow.array(values)
    except (pyarrow.ArrowException, OverflowError):
        return pyarrow.array([None if value is None else str(value) for value in values])


class _Stream:
    """What pyarrow reads: the protocol of Arrow's C stream interface."""

    def __init__(self, capsule):
        self._capsule = capsule

    def __arrow_c_stream__(self, requested_schema=None):
        return self._capsule
