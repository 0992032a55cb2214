"""TrainReportCallback: reports what Lightning has logged, with its checkpoint."""

import os
import shutil
import tempfile
from typing import Optional, Union

from paceline.train.checkpoint import Checkpoint
from paceline.train.context import get_context
from paceline.train.lightning._package import pl
from paceline.train.session import CheckpointUploadMode, report
from paceline.train.validation_config import ValidationTaskConfig


class TrainReportCallback(pl.callbacks.Callback):
    """Reports the logged metrics with ``epoch`` and ``step``, and a checkpoint of the trainer.

    It reports at the end of each epoch, or every n epochs or optimizer steps, and once more at the end of the training.
    All ranks take part in saving, as the strategy requires; one rank of each machine hands over the files.
    ``checkpoint.ckpt`` in the checkpoint is Lightning's: a file, or the folder of a sharded checkpoint.

    Args:
        checkpoint_upload_mode: As in report(). Lightning writes the files first, in any mode; with ``ASYNC`` they are
            copied into the run's folder while training continues. By default ``SYNC``.
        validation: As in report(): whether, or with what, checkpoints are validated in the background.
        every_n_epochs: Epochs from one report to the next. By default 1.
        every_n_train_steps: Optimizer steps from one report to the next, instead of epochs. A run that resumes within an
            epoch sees the epoch's first batches again, unless the loader has ``state_dict`` and ``load_state_dict``.

    Raises:
        ValueError: If both frequencies are given, or one is below 1.

    Example:
        >>> trainer = pl.Trainer(strategy=DDPStrategy(), plugins=[LightningEnvironment()],
        ...                      callbacks=[TrainReportCallback(every_n_train_steps=500)], enable_checkpointing=False)
        >>> checkpoint = paceline.train.get_checkpoint()
        >>> with checkpoint.as_directory() if checkpoint else contextlib.nullcontext() as folder:
        ...     file = folder and os.path.join(folder, TrainReportCallback.CHECKPOINT_NAME)
        ...     prepare_trainer(trainer).fit(model, ckpt_path=file)
    """

    CHECKPOINT_NAME = "checkpoint.ckpt"

    def __init__(
        self,
        checkpoint_upload_mode: Optional[CheckpointUploadMode] = None,
        validation: Union[bool, ValidationTaskConfig] = False,
        *,
        every_n_epochs: Optional[int] = None,
        every_n_train_steps: Optional[int] = None,
    ):
        super().__init__()
        if every_n_epochs is not None and every_n_train_steps is not None:
            raise ValueError("TrainReportCallback: every_n_epochs and every_n_train_steps exclude each other; give one")
        for name, value in (("every_n_epochs", every_n_epochs), ("every_n_train_steps", every_n_train_steps)):
            if value is not None and value < 1:
                raise ValueError(f"TrainReportCallback({name}={value}); allowed: 1 or more")
        self.checkpoint_upload_mode = checkpoint_upload_mode or CheckpointUploadMode.SYNC
        self.validation = validation
        self.every_n_epochs = every_n_epochs or 1
        self.every_n_train_steps = every_n_train_steps
        self._has_unreported = False
        self._reported_step = 0
        self._epoch = 0  # in on_train_end() Lightning has gone on to the next

    def on_train_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        self._reported_step = trainer.global_step  # a checkpoint that was loaded is there already

    def on_train_batch_end(self, trainer: "pl.Trainer", *args, **kwargs) -> None:
        self._has_unreported = True
        self._epoch = trainer.current_epoch
        step = trainer.global_step
        # Accumulated gradients: several batches end with the same step.
        if self.every_n_train_steps and step % self.every_n_train_steps == 0 and step != self._reported_step:
            self._report(trainer)

    def on_train_epoch_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if not self.every_n_train_steps and (trainer.current_epoch + 1) % self.every_n_epochs == 0:
            self._report(trainer)

    def on_train_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if self._has_unreported:
            self._report(trainer)

    def _report(self, trainer):
        self._has_unreported = False
        self._reported_step = trainer.global_step
        metrics = {name: value.item() for name, value in trainer.callback_metrics.items()}
        metrics.update(epoch=self._epoch, step=trainer.global_step)
        # Strategies that save from all ranks write into the folder that rank 0 names.
        mine = tempfile.mkdtemp(prefix="lightning_checkpoint_") if trainer.is_global_zero else None
        folder = trainer.strategy.broadcast(mine)
        os.makedirs(folder, exist_ok=True)
        try:
            trainer.save_checkpoint(os.path.join(folder, self.CHECKPOINT_NAME), weights_only=False)
            leads = get_context().get_local_rank() == 0 and os.listdir(folder)
            report(
                metrics,
                Checkpoint(folder) if leads else None,
                checkpoint_upload_mode=self.checkpoint_upload_mode,
                validation=self.validation if leads else False,
            )
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        if leads and self.checkpoint_upload_mode != CheckpointUploadMode.ASYNC:
            shutil.rmtree(folder)
