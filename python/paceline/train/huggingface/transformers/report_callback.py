"""TrainReportCallback: reports what Transformers has logged, with its checkpoint."""

import os
import tempfile
from typing import Any, Union

import torch.distributed as dist
from transformers.trainer_callback import TrainerCallback

from paceline.train.checkpoint import Checkpoint
from paceline.train.context import get_context
from paceline.train.session import report
from paceline.train.validation_config import ValidationTaskConfig


class TrainReportCallback(TrainerCallback):
    """Reports whenever the ``Trainer`` has saved a checkpoint. The metrics are the latest logged value of each name.
    The ``Trainer``'s checkpoint is the folder ``checkpoint`` in the reported one.

    The files go directly into the run's folder, so ``save_total_limit`` may clean up ``output_dir``. Metrics of an
    evaluation are those of the saved model if ``eval_strategy`` equals ``save_strategy`` and ``save_steps`` is a
    multiple of ``eval_steps``.

    Args:
        validation: As in report(): whether, or with what, checkpoints are validated in the background.

    Example:
        >>> arguments = transformers.TrainingArguments(output_dir="output", save_strategy="epoch", eval_strategy="epoch")
        >>> trainer = transformers.Trainer(args=arguments, callbacks=[TrainReportCallback()], ...)
        >>> if checkpoint := paceline.train.get_checkpoint():
        ...     with checkpoint.as_directory() as folder:
        ...         trainer.train(resume_from_checkpoint=os.path.join(folder, TrainReportCallback.CHECKPOINT_NAME))
    """

    CHECKPOINT_NAME = "checkpoint"

    def __init__(self, validation: Union[bool, ValidationTaskConfig] = False):
        self.validation = validation

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        metrics = {name: value for log in state.log_history for name, value in log.items()}
        saved = os.path.join(args.output_dir, f"checkpoint-{state.global_step}")
        if not _is_mine(saved):
            return report(metrics)
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(os.path.abspath(saved), os.path.join(folder, self.CHECKPOINT_NAME))
            report(metrics, Checkpoint(folder), validation=self.validation)


def _is_mine(folder):
    """Whether this rank hands `folder` over: the first of those that have written into it. Waits until all have."""
    place = None
    if os.path.isdir(folder):
        about = os.stat(folder)
        place = (get_context().get_node_rank(), about.st_dev, about.st_ino)
    places = [None] * dist.get_world_size()
    dist.all_gather_object(places, place)
    return place is not None and places.index(place) == dist.get_rank()
