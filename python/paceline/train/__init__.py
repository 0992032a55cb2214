"""Training on a group of workers: configuration, functions for train loops, results."""

from paceline import _absent
from paceline.train import collective
from paceline.train.backend import Backend, BackendConfig
from paceline.train.callback import UserCallback
from paceline.train.checkpoint import Checkpoint
from paceline.train.config import (
    CheckpointConfig,
    DebugConfig,
    FailureConfig,
    LoggingConfig,
    RunConfig,
    ScalingConfig,
    TrackerConfig,
)
from paceline.train.constants import TRAIN_DATASET_KEY
from paceline.train.context import TrainContext, get_context
from paceline.train.data_config import DataConfig
from paceline.train.errors import (
    CollectiveError,
    ConfigError,
    ControllerError,
    HangError,
    NCCLHangError,
    PacelineError,
    PreemptionError,
    StorageError,
    TrainingFailedError,
    UsageError,
    WorkerGroupError,
)
from paceline.train.preemption import PreemptionInfo, get_preemption_info
from paceline.train.progress import progress
from paceline.train.result import FailureKind, Result, StopCause
from paceline.train.session import (
    CheckpointConsistencyMode,
    CheckpointUploadMode,
    ReportedCheckpoint,
    ReportedCheckpointStatus,
    checkpoint_requested,
    get_all_reported_checkpoints,
    get_checkpoint,
    get_dataset_shard,
    report,
)
from paceline.train.sync_config import SyncConfig
from paceline.train.trainer import DataParallelTrainer
from paceline.train.validation_config import ValidationConfig, ValidationFn, ValidationTaskConfig

__all__ = [name for name in dir() if not name.startswith("_")]

_absent.explain(__name__)
