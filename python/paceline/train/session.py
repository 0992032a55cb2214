"""The functions that a train loop calls."""

import sys
from typing import Any, Callable, Dict, List, Optional, Union

from paceline._native import native
from paceline.train._settings import check_type
from paceline.train.checkpoint import Checkpoint
from paceline.train.context import inside
from paceline.train.validation_config import ValidationTaskConfig

CheckpointUploadMode = native.CheckpointUploadMode
CheckpointConsistencyMode = native.CheckpointConsistencyMode
ReportedCheckpointStatus = native.ReportedCheckpointStatus


class ReportedCheckpoint:
    """A checkpoint that a report has brought.

    Attributes:
        checkpoint: Published, and kept until retention deletes it.
        metrics: Rank 0's, those of the validation among them.
        status: What has become of its validation (:class:`ReportedCheckpointStatus`).
    """

    def __init__(self, reported):
        self.checkpoint = Checkpoint._from_native(reported.checkpoint)
        self.metrics: Dict[str, Any] = reported.metrics
        self.status = reported.status

    def __repr__(self):
        return f"ReportedCheckpoint(checkpoint={self.checkpoint!r}, metrics={self.metrics!r}, status={self.status.name})"


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
    """Hands over metrics and, optionally, a checkpoint. Report k is each rank's k-th call.

    Metrics alone are queued: the call takes microseconds. With a checkpoint it blocks this rank until its own files are
    durable (``checkpoint_upload_mode`` has other ways); the checkpoint is published once every rank's k-th report has
    arrived. Ranks may differ in whether they hand over files; what several hand over is merged.

    Args:
        metrics: Numbers, strings and nested dicts of them.
        checkpoint: A folder of this rank's files.
        checkpoint_dir_name: Name of the checkpoint's folder; by default ``checkpoint_000042`` with the report's number.
            Of the ranks that give one the lowest counts.
        checkpoint_upload_mode: ``SYNC``; ``ASYNC``: a thread uploads the files while training goes on;
            ``NO_UPLOAD``: they are in a folder right below ``get_context().get_storage()`` already.
        delete_local_checkpoint_after_upload: By default only with ``ASYNC``.
        checkpoint_upload_fn: ``fn(checkpoint, checkpoint_dir_name) -> Checkpoint``: the user's own function, which uploads
            the files into the run's folder.
        validation: Whether, or with what, the checkpoint is validated on the side.
        reduce: How the ranks' numbers become one: ``"mean"``, ``"sum"``, ``"min"``, ``"max"``; by default rank 0's.

    Raises:
        RuntimeError: Outside a train loop.
        ValueError: For metrics that hold tensors, or arguments that do not go together.
        OSError: When the files cannot be written.

    Example:
        >>> report({"loss": loss.item()}, checkpoint=Checkpoint.from_directory(folder))
    """
    _refuse_tensors(metrics)
    check_type("report()'s checkpoint, as Checkpoint.from_directory(folder) makes one,", checkpoint, Checkpoint)
    if validation is True:
        validation = ValidationTaskConfig()
    if checkpoint is not None and checkpoint_upload_mode is CheckpointUploadMode.ASYNC:
        checkpoint._keep_folder(delete_local_checkpoint_after_upload is not False)
    native.report(
        metrics,
        None if checkpoint is None else checkpoint._native,
        reduce,
        checkpoint_upload_mode,
        delete_local_checkpoint_after_upload,
        _upload_fn(checkpoint_upload_fn),
        checkpoint_dir_name or "",
        validation._to_settings() if validation else None,
    )


def _refuse_tensors(metrics, place="metrics"):
    torch = sys.modules.get("torch")
    if torch is None:
        return
    if isinstance(metrics, torch.Tensor):
        raise ValueError(f"{place} is a torch.Tensor; report numbers: tensor.item(), or tensor.tolist()")
    if isinstance(metrics, dict):
        for name, value in metrics.items():
            _refuse_tensors(value, f"{place}[{name!r}]")
    elif isinstance(metrics, (list, tuple)):
        for i, value in enumerate(metrics):
            _refuse_tensors(value, f"{place}[{i}]")


def _upload_fn(function):
    if function is None:
        return None

    def upload(checkpoint, dir_name):
        uploaded = function(Checkpoint._from_native(checkpoint), dir_name)
        if not isinstance(uploaded, Checkpoint):
            raise ValueError(
                f"checkpoint_upload_fn has returned a {type(uploaded).__name__}; wanted: the Checkpoint it uploaded"
            )
        return uploaded._native

    return upload


def get_checkpoint() -> Optional[Checkpoint]:
    """The latest published checkpoint: at the start the one to continue from; None in a run that has none.

    Raises:
        RuntimeError: Outside a train loop.
    """
    return Checkpoint._from_native(native.get_checkpoint())


def get_all_reported_checkpoints(
    consistency_mode: CheckpointConsistencyMode = CheckpointConsistencyMode.VALIDATED,
    timeout_s: Optional[float] = None,
) -> List[ReportedCheckpoint]:
    """The checkpoints of this run that are kept, the worst first (the oldest, without a score).

    Args:
        consistency_mode: ``COMMITTED`` waits until all checkpoints up to this rank's last report are published,
            ``VALIDATED`` until their validations have ended too.
        timeout_s: Seconds to wait at most; then it gives what there is.
    """
    return [ReportedCheckpoint(one) for one in native.get_all_reported_checkpoints(consistency_mode, timeout_s)]


def get_dataset_shard(dataset_name: Optional[str] = None) -> Any:
    """This worker's share of a dataset of the trainer."""
    inside("get_dataset_shard")
    raise KeyError(f"the trainer has no dataset {dataset_name!r}; it was given none (datasets=…)")
