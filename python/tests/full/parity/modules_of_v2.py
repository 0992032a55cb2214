"""The other paths by which programs import what they use."""

import importlib

outcome = {}
PATHS = {
    "ray.train.v2.api.config": "RunConfig ScalingConfig FailureConfig CheckpointConfig",
    "ray.train.v2.api.report_config": "CheckpointUploadMode CheckpointConsistencyMode",
    "ray.train.v2.api.callback": "UserCallback RayTrainCallback",
    "ray.train.v2.api.context": "TrainContext",
    "ray.train.v2.api.data_parallel_trainer": "DataParallelTrainer",
    "ray.train.v2.api.exceptions": "TrainingFailedError WorkerGroupError ControllerError",
    "ray.train.v2.api.result": "Result",
    "ray.train.v2.api.reported_checkpoint": "ReportedCheckpoint ReportedCheckpointStatus",
    "ray.train.v2.api.train_fn_utils": "report get_checkpoint get_context get_dataset_shard get_all_reported_checkpoints",
    "ray.train.v2.api.validation_config": "ValidationConfig ValidationTaskConfig ValidationFn",
    "ray.train.v2.torch.torch_trainer": "TorchTrainer",
    "ray.train.v2.torch.train_loop_utils": "prepare_model prepare_data_loader get_device",
    "ray.train.torch.torch_trainer": "TorchTrainer",
    "ray.train.torch.config": "TorchConfig",
    "ray.train.torch.train_loop_utils": "prepare_model prepare_data_loader get_device",
    "ray.train.torch.torch_checkpoint": "TorchCheckpoint",
    "ray.train.collective.collectives": "barrier broadcast_from_rank_zero",
    "ray.train.base_trainer": "TrainingFailedError",
    "ray.train.constants": "TRAIN_DATASET_KEY",
    "ray.train.context": "TrainContext get_context",
    "ray.train.error": "SessionMisuseError",
    "ray.train.backend": "Backend BackendConfig",
    "ray.train.trainer": "",
    "ray.air.config": "RunConfig ScalingConfig FailureConfig CheckpointConfig",
    "ray.air.constants": "MODEL_KEY EVALUATION_DATASET_KEY TRAIN_DATASET_KEY",
}
for path, names in PATHS.items():
    module = importlib.import_module(path)
    outcome[path.partition(".")[2]] = [name for name in names.split() if not hasattr(module, name)]
import ray.train  # noqa: E402
import ray.train.torch  # noqa: E402
import ray.train.v2.api.config  # noqa: E402

outcome["same"] = [
    ray.train.RunConfig is importlib.import_module("ray.train.v2.api.config").RunConfig,
    ray.train.torch.TorchTrainer is importlib.import_module("ray.train.v2.torch.torch_trainer").TorchTrainer,
    ray.train.report is importlib.import_module("ray.train.v2.api.train_fn_utils").report,
]
