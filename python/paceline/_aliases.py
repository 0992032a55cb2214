"""Modules of Ray's from which scripts import, where Paceline has the names elsewhere: a row each instead of a file.

``import paceline.train.v2.api.config`` works as if a file had the row's text. What is imported are the same objects, so
pickles and isinstance() know nothing of it. Type checkers read files alone, and want ``from paceline.train import …``.
"""

import importlib.abc
import importlib.machinery
import sys
from typing import Any, Optional

from paceline import _absent

_CONFIG = "CheckpointConfig, FailureConfig, RunConfig, ScalingConfig"
_LOOP = "get_all_reported_checkpoints, get_checkpoint, get_context, get_dataset_shard, get_preemption_info, report"
_TORCH = "accelerate, backward, enable_reproducibility, get_device, get_devices"
_PREPARE = "prepare_data_loader, prepare_model, prepare_optimizer"
_EXCEPTIONS = "ControllerError, NCCLHangError, PreemptionError, TrainingFailedError, WorkerGroupError"

# Below paceline. A package of Ray's that defines nothing has an empty row.
SOURCES = {
    "air.checkpoint": "from paceline.train import Checkpoint",
    "air.config": f'from paceline.train import {_CONFIG}; MAX, MIN = "max", "min"',
    "air.constants": "from paceline.train.constants import *",
    "air.result": "from paceline.train import Result",
    "air.util": "",
    "air.util.node": "",
    "train.base_trainer": "from paceline.train import TrainingFailedError",
    "train.data_parallel_trainer": "from paceline.train import DataParallelTrainer",
    "train.error": "from paceline.train import UsageError as SessionMisuseError",
    "train.torch.torch_trainer": "from paceline.train.torch import TorchTrainer",
    "train.torch.train_loop_utils": f"from paceline.train.torch import {_TORCH}, {_PREPARE}",
    "train.utils": "",
    "train.v2": "",
    "train.v2.api": "",
    "train.v2.api.callback": "from paceline.train import UserCallback; RayTrainCallback = UserCallback",
    "train.v2.api.config": f"from paceline.train import LoggingConfig, {_CONFIG}",
    "train.v2.api.context": "from paceline.train import TrainContext; DistributedTrainContext = TrainContext",
    "train.v2.api.data_parallel_trainer": "from paceline.train import DataParallelTrainer",
    "train.v2.api.exceptions": f"from paceline.train import {_EXCEPTIONS}",
    "train.v2.api.preemption": "from paceline.train import PreemptionInfo",
    "train.v2.api.report_config": "from paceline.train import CheckpointConsistencyMode, CheckpointUploadMode",
    "train.v2.api.reported_checkpoint": "from paceline.train import ReportedCheckpoint, ReportedCheckpointStatus",
    "train.v2.api.result": "from paceline.train import Result",
    "train.v2.api.train_fn_utils": f"from paceline.train import {_LOOP}",
    "train.v2.api.validation_config": "from paceline.train import ValidationConfig, ValidationFn, ValidationTaskConfig",
    "train.v2.torch": "",
    "train.v2.torch.torch_trainer": "from paceline.train.torch import TorchTrainer",
    "train.v2.torch.train_loop_utils": f"from paceline.train.torch import {_TORCH}, {_PREPARE}",
}


class _Loader(importlib.abc.InspectLoader):
    """Makes a module of its row. All are packages, so that what is absent below them is asked of the finder as well."""

    def get_source(self, fullname: str) -> str:
        return SOURCES[fullname.removeprefix("paceline.")] + "\n"

    def is_package(self, fullname: str) -> bool:
        return True

    def exec_module(self, module: Any) -> None:
        super().exec_module(module)
        module.__doc__ = "A module of Ray Train's, kept for scripts that import from it; see paceline.train."
        _absent.explain(module.__name__)


class Finder(importlib.abc.MetaPathFinder):
    """Finds alias modules. For what is absent it raises the ImportError that says what to use instead."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Optional[importlib.machinery.ModuleSpec]:
        package, _, name = fullname.partition(".")
        if package != "paceline":
            return None
        if name in SOURCES:
            return importlib.machinery.ModuleSpec(fullname, _Loader(), origin="paceline._aliases", is_package=True)
        if error := _absent.error(name):
            raise _absent.AbsentModuleError(str(error), name=fullname)
        return None


def install() -> None:
    """Last of the finders: a file takes precedence."""
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.append(Finder())
