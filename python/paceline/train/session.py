"""The functions that a train loop calls."""

import collections.abc
import dataclasses
import enum
from typing import Any, Callable, Dict, List, Optional, Union

from paceline._native import native
from paceline.train._metrics import decoded, encoded
from paceline.train._settings import check_type, refusal
from paceline.train.checkpoint import Checkpoint
from paceline.train.context import inside
from paceline.train.validation_config import ValidationTaskConfig


class CheckpointUploadMode(enum.Enum):
    """Who uploads a checkpoint's files, and when: see report()."""

    SYNC = "SYNC"
    ASYNC = "ASYNC"
    NO_UPLOAD = "NO_UPLOAD"

    def default_delete_local_checkpoint_after_upload(self) -> bool:
        """Whether report() deletes the local files once they are uploaded."""
        return self is CheckpointUploadMode.ASYNC


class CheckpointConsistencyMode(enum.Enum):
    """What get_all_reported_checkpoints() waits for: that checkpoints are published, or validated too."""

    COMMITTED = "COMMITTED"
    VALIDATED = "VALIDATED"


class ReportedCheckpointStatus(enum.Enum):
    """What came of a published checkpoint's validation; ``COMMITTED``: none was asked for."""

    COMMITTED = "COMMITTED"
    PENDING_VALIDATION = "PENDING_VALIDATION"
    VALIDATED = "VALIDATED"
    VALIDATION_TIMEOUT = "VALIDATION_TIMEOUT"
    VALIDATION_FAILED = "VALIDATION_FAILED"


@dataclasses.dataclass
class ReportedCheckpoint:
    """A checkpoint of a report, as get_all_reported_checkpoints() returns it.

    Attributes:
        checkpoint: The published checkpoint, which exists until retention deletes it.
        metrics: Rank 0's metrics, including those of the validation.
        status: The state of its validation (:class:`ReportedCheckpointStatus`).
    """

    checkpoint: Checkpoint
    metrics: Dict[str, Any]
    status: ReportedCheckpointStatus


def report(
    metrics: Dict[str, Any],
    checkpoint: Optional[Checkpoint] = None,
    checkpoint_dir_name: Optional[str] = None,
    checkpoint_upload_mode: CheckpointUploadMode = CheckpointUploadMode.SYNC,
    delete_local_checkpoint_after_upload: Optional[bool] = None,
    checkpoint_upload_fn: Optional[Callable[[Checkpoint, str], Checkpoint]] = None,
    validation: Union[bool, ValidationTaskConfig] = False,
    *,
    reduce: str = "",
) -> None:
    """Reports metrics and, optionally, a checkpoint. Report k consists of the k-th call on each rank.

    Metrics alone are queued: the call takes microseconds. With a checkpoint it blocks this rank until its own files are
    durable (see ``checkpoint_upload_mode`` for other ways). The checkpoint is published once every rank's k-th report
    has arrived. Not every rank has to hand over files; the files of several ranks are merged.

    Args:
        metrics: By name: numbers, texts, lists and dicts of them, and what else has a form of its own: NumPy's arrays and
            numbers (which come back as Python's), tuples, sets, bytes, integers of any size, dates and times, enumerations,
            dataclasses, named tuples, paths. Anything else that can be pickled is kept as its text.
        checkpoint: A folder of this rank's files.
        checkpoint_dir_name: Name of the checkpoint's folder; by default ``checkpoint_000042`` with the report's number.
            If an earlier report of the run has used it, this report's checkpoint replaces that one at once.
            If several ranks give a name, the lowest rank's counts.
        checkpoint_upload_mode: ``SYNC``: see above. ``ASYNC``: a thread uploads the files while training continues.
            ``NO_UPLOAD``: the files are already in a folder directly below ``get_context().get_storage()``.
        delete_local_checkpoint_after_upload: Whether to delete the local folder then; by default only with ``ASYNC``.
            With ``NO_UPLOAD`` it has no effect: that folder is the checkpoint itself.
        checkpoint_upload_fn: ``fn(checkpoint, checkpoint_dir_name) -> Checkpoint``: a function of the user that uploads
            the files into the run's folder.
        validation: Whether, or with what, the checkpoint is validated in the background.
        reduce: How to combine the ranks' numbers: ``"mean"``, ``"sum"``, ``"min"``, ``"max"``; by default rank 0's are
            used.

    Raises:
        RuntimeError: Outside a train loop.
        ValueError: If metrics hold tensors or modules of torch, or arguments do not fit together.
        TypeError: If metrics hold what cannot even be pickled; it names where.
        OSError: If the files cannot be written.

    Example:
        >>> report({"loss": loss.item()}, checkpoint=Checkpoint.from_directory(folder))
    """
    if not isinstance(metrics, collections.abc.Mapping):
        raise refusal("report()'s metrics", metrics, "a dictionary")
    check_type("report()'s checkpoint, as Checkpoint.from_directory(folder) makes one,", checkpoint, Checkpoint)
    if validation is True:
        validation = ValidationTaskConfig()
    if checkpoint_upload_mode is CheckpointUploadMode.NO_UPLOAD:
        delete_local_checkpoint_after_upload = None
    if checkpoint is not None and checkpoint_upload_mode is CheckpointUploadMode.ASYNC:
        checkpoint._keep_folder(delete_local_checkpoint_after_upload is not False)
    native.report(
        encoded(metrics),
        None if checkpoint is None else checkpoint._native,
        reduce,
        _native("report()'s checkpoint_upload_mode", checkpoint_upload_mode, CheckpointUploadMode),
        delete_local_checkpoint_after_upload,
        _upload_fn(checkpoint_upload_fn),
        checkpoint_dir_name or "",
        validation._to_settings() if validation else None,
    )


def _native(name, value, wanted):
    """The extension's member of the same name."""
    if not isinstance(value, wanted):
        raise refusal(name, value, f"one of {', '.join(map(str, wanted))}")
    return getattr(native, wanted.__name__)[value.name]


def _upload_fn(function):
    if function is None:
        return None

    def upload(checkpoint, dir_name):
        uploaded = function(Checkpoint._from_native(checkpoint), dir_name)
        if not isinstance(uploaded, Checkpoint):
            raise ValueError(
                f"checkpoint_upload_fn must return a `paceline.train.Checkpoint`; it has returned a value of type {type(uploaded).__name__}"
            )
        return uploaded._native

    return upload


def checkpoint_requested() -> bool:
    """Whether somebody has asked for a checkpoint now, with ``paceline checkpoint now RUN`` or in the dashboard.

    Then save one and report it. All ranks hear of it at the same of their calls, so every rank must call this equally
    often; where nobody asks, a call costs about a microsecond.

    Raises:
        RuntimeError: Outside a train loop.

    Example:
        >>> asked = checkpoint_requested()
        >>> report({"loss": loss}, checkpoint=save(model) if asked or step % 1000 == 0 else None)
    """
    return native.checkpoint_requested()


def get_checkpoint() -> Optional[Checkpoint]:
    """The latest published checkpoint: at the start the one to resume from; None if the run has none.

    After a report with a checkpoint (not with ``ASYNC``) it waits until that one is published, which it is when every
    rank has made that report.

    Raises:
        RuntimeError: Outside a train loop; when the wait takes longer than ``TorchConfig.timeout_s``.
    """
    return Checkpoint._from_native(native.get_checkpoint())


def get_all_reported_checkpoints(
    consistency_mode: CheckpointConsistencyMode = CheckpointConsistencyMode.VALIDATED,
    timeout_s: Optional[float] = None,
) -> List[ReportedCheckpoint]:
    """The checkpoints of this run that are kept, the worst first (without a score the oldest).

    Args:
        consistency_mode: ``COMMITTED`` waits until all checkpoints up to this rank's last report are published,
            ``VALIDATED`` until their validations have ended too.
        timeout_s: Seconds to wait at most; then it returns what there is.
    """
    mode = _native("get_all_reported_checkpoints()'s consistency_mode", consistency_mode, CheckpointConsistencyMode)
    return [
        ReportedCheckpoint(
            checkpoint=Checkpoint._from_native(one.checkpoint),
            metrics=decoded(one.metrics),
            status=ReportedCheckpointStatus[one.status.name],
        )
        for one in native.get_all_reported_checkpoints(mode, timeout_s)
    ]


def get_dataset_shard(dataset_name: Optional[str] = None) -> Any:
    """This worker's share of a dataset of the trainer, a DataIterator: the same object each time.

    Args:
        dataset_name: As in the trainer's ``datasets``; may be left out where there is one only.

    Raises:
        KeyError: For a name that the trainer was not given.
    """
    inside("get_dataset_shard")
    from paceline.data import _datasets  # only for those who have datasets

    return _datasets.shard(dataset_name)
