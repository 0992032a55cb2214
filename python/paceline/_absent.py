"""Names of Ray's that Paceline does not have, with what to use instead: the one list of them.

Whoever uses such a name, or imports it, gets an error with the reason. A test compares everything else with Ray's public
tree (python/tests/ray_tree.py), and raises each error.
"""

import sys
from typing import Any, Dict, Optional, Tuple, Type

from paceline import _absent_data

_TASKS = "Paceline trains, and runs no tasks or actors; a program may use Ray's own beside it (import ray)"
_DATA = "paceline.data has what scripts use; see its DataConfig and Dataset"
_TUNE = "Paceline does not search hyperparameters; call fit() for each configuration"
_PYTORCH = "Paceline trains with PyTorch (paceline.train.torch.TorchTrainer)"
_MACHINERY = "Ray Train needs it inside; paceline.train has all that a script needs"
_NOTES = "see get_metadata() and set_metadata()"

# By reason: names below paceline. A name stands for what is in it as well; none of them is here.
_REASONS = {
    _TASKS: """
        actor cancel client client_builder ClientBuilder core cpp_function cross_language dag exceptions experimental get
        get_actor get_gpu_ids get_runtime_context internal java_actor_class java_function job_config kill Language method put
        remote remote_function runtime_context timeline types util wait workflow ActorClassID ActorID
        DynamicObjectRefGenerator FunctionID JobID NodeID ObjectID ObjectRef ObjectRefGenerator PlacementGroupID SCRIPT_MODE
        TaskID UniqueID WORKER_MODE WorkerID""",
    "runs are on this machine, and need nothing that is started before": """
        autoscaler cluster_utils dashboard job_submission runtime_env scripts widgets""",
    _DATA: """
        air.DataBatchType air.data_batch_type air.util.data_batch_conversion air.util.object_extensions
        air.util.tensor_extensions train.DataConfig.configure train.DataConfig.default_ingest_options
        train.base_trainer.GenDataset train.base_trainer.format_datasets_for_repr train.trainer.GenDataset""",
    _TUNE: """
        tune air.AcquiredResources air.ResourceRequest air.config.SampleRange air.execution
        air.session.get_trial_resources air.session.TrialInfo train.ScalingConfig.as_placement_group_factory
        train.ScalingConfig.from_placement_group_factory""",
    _PYTORCH: """
        train.tensorflow train.xgboost train.lightgbm train.horovod train.v2.horovod train.v2.jax train.v2.lightgbm
        train.v2.tensorflow train.v2.xgboost air.integrations.keras""",
    "Paceline trains; another program serves models": "serve",
    "Paceline trains; other libraries bring reinforcement learning and language models": "rllib llm",
    "use the package itself (import cloudpickle)": "cloudpickle",
    "use RunConfig(logging_config=paceline.train.LoggingConfig(…))": "LoggingConfig",
    "use RunConfig(trackers=[TrackerConfig(…)]), or setup_mlflow() and setup_wandb() in the train loop": """
        air.integrations.comet air.integrations.mlflow.MLflowLoggerCallback
        air.integrations.wandb.WandbLoggerCallback""",
    "derive from paceline.train.DataParallelTrainer, or call a function of your own in the train loop": """
        train.base_trainer.BaseTrainer train.trainer.BaseTrainer""",
    "Paceline has no TPU support": "train.torch.xla",
    "a failure restarts the worker group from its last checkpoint": "train.v2.torch.torchft_config",
    "put it into train_loop_config": "air.session.get_metadata",
    "get_context() is there with num_workers=0, too": "train.v2.api.context.LocalTrainContext",
    "get_context().get_storage() is it in the train loop": "train.RunConfig.storage_context",
    _NOTES: "train.torch.TorchCheckpoint.get_preprocessor train.torch.TorchCheckpoint.set_preprocessor",
    "RunConfig.name is it": "train.storage_context.StorageContext.get_experiment_dir_name",
    "a run has a journal instead": "train.storage_context.StorageContext.checkpoint_manager_snapshot_path",
    "Paceline's version is all that its packages know": "_cluster.Context.ray_commit",
    "Paceline writes other files and reads other variables": """
        air.constants.AIR_ENV_VARS air.constants.CHECKPOINT_TUNE_METADATA_FILE
        air.constants.COPY_DIRECTORY_CHECKPOINTS_INSTEAD_OF_MOVING_ENV air.constants.EXPR_ERROR_FILE
        air.constants.EXPR_ERROR_PICKLE_FILE air.constants.EXPR_PARAM_FILE air.constants.EXPR_PARAM_PICKLE_FILE
        air.constants.EXPR_PROGRESS_FILE air.constants.EXPR_RESULT_FILE air.constants.LAZY_CHECKPOINT_MARKER_FILE
        air.constants.MAX_REPR_LENGTH air.constants.SESSION_MISUSE_LOG_ONCE_KEY air.constants.TENSOR_COLUMN_NAME
        air.constants.TIMESTAMP air.constants.TIME_THIS_ITER_S air.constants.TRAINING_ITERATION
        train.constants.CHECKPOINT_DIR_NAME train.constants.CHECKPOINT_METADATA_KEY train.constants.CHECKPOINT_RANK_KEY
        train.constants.COPY_DIRECTORY_CHECKPOINTS_INSTEAD_OF_MOVING_ENV
        train.constants.DEFAULT_JAX_DISTRIBUTED_SHUTDOWN_TIMEOUT_S
        train.constants.DEFAULT_TORCH_PROCESS_GROUP_SHUTDOWN_TIMEOUT_S train.constants.DETAILED_AUTOFILLED_KEYS
        train.constants.ENABLE_DETAILED_AUTOFILLED_METRICS_ENV train.constants.ENABLE_SHARE_CUDA_VISIBLE_DEVICES_ENV
        train.constants.ENABLE_SHARE_HIP_VISIBLE_DEVICES_ENV train.constants.ENABLE_SHARE_NEURON_CORES_ACCELERATOR_ENV
        train.constants.ENABLE_SHARE_NPU_RT_VISIBLE_DEVICES_ENV train.constants.ENABLE_V2_MIGRATION_WARNINGS_ENV_VAR
        train.constants.JAX_DISTRIBUTED_SHUTDOWN_TIMEOUT_S train.constants.RAY_TRAIN_COUNT_PREEMPTION_AS_FAILURE
        train.constants.RAY_TRAIN_ENABLE_STATE_TRACKING train.constants.RESULT_FILE_JSON train.constants.TIME_TOTAL_S
        train.constants.TORCH_PROCESS_GROUP_SHUTDOWN_TIMEOUT_S train.constants.TRAIN_CHECKPOINT_SUBDIR
        train.constants.TRAIN_ENABLE_WORKER_SPREAD_ENV train.constants.TRAIN_ENV_VARS
        train.constants.TRAIN_PLACEMENT_GROUP_TIMEOUT_S_ENV train.constants.TUNE_ONLY_STORE_CHECKPOINT_SCORE_ATTRIBUTE
        train.constants.V2_MIGRATION_GUIDE_LINK_MESSAGE train.constants.V2_MIGRATION_GUIDE_MESSAGE
        train.constants.WORKER_HOSTNAME train.constants.WORKER_NODE_IP train.constants.WORKER_PID""",
    _MACHINERY: """
        air.session.get_accelerator air.session.get_run_id air.session.get_session air.session.init_session
        air.session.set_accelerator air.session.shutdown_session air.integrations.wandb.WANDB_ENV_VAR
        air.integrations.wandb.WANDB_GROUP_ENV_VAR air.integrations.wandb.WANDB_MODE_ENV_VAR
        air.integrations.wandb.WANDB_POPULATE_RUN_LOCATION_HOOK air.integrations.wandb.WANDB_PROCESS_RUN_INFO_HOOK
        air.integrations.wandb.WANDB_PROJECT_ENV_VAR air.integrations.wandb.WANDB_SETUP_API_KEY_HOOK
        train.base_trainer.PREPROCESSOR_DEPRECATION_MESSAGE train.trainer.TrainingIterator
        train.torch.config.TorchConfigContextManager train.torch.torch_checkpoint.ENCODED_DATA_KEY
        train.torch.train_loop_utils.TorchWorkerProfiler train.lightning.RayTrainReportCallback.tmpdir_prefix
        train.torch.TorchTrainer.train_run_context train.DataParallelTrainer.train_run_context""",
}
# Likewise what Ray Train has removed: it raises a DeprecationWarning, or knows the name no more.
_REMOVED = {
    _NOTES: "train.Checkpoint.get_preprocessor train.Checkpoint.set_preprocessor",
    "use from_dict() and from_directory()": "train.Checkpoint.from_bytes",
    "use to_dict() and to_directory()": "train.Checkpoint.to_bytes",
    "use path": "train.Checkpoint.get_internal_representation",
    "use Checkpoint(uri)": "train.Checkpoint.from_uri",
    "use to_directory(), and the tools of the object store": "train.Checkpoint.to_uri",
}


class AbsentNameError(AttributeError, NotImplementedError):
    """A name of Ray's was used that Paceline does not have."""


class RemovedNameError(AbsentNameError, DeprecationWarning):
    """The same of a name that Ray Train has removed, too."""


class AbsentModuleError(ImportError, NotImplementedError):
    """The same, where a program imports it."""


# The reason and the error of each name.
ROWS: Dict[str, Tuple[str, Type[AbsentNameError]]] = {
    name: (why, kind)
    for reasons, kind in ((_REASONS, AbsentNameError), (_absent_data.REASONS, AbsentNameError), (_REMOVED, RemovedNameError))
    for why, names in reasons.items()
    for name in names.split()
}


def error(name: str) -> Optional[AbsentNameError]:
    """The error for `name`, which is below paceline; None: the list does not have it."""
    listed = name
    while listed:
        if listed in ROWS:
            return _error(name, *ROWS[listed])
        listed = listed.rpartition(".")[0]
    return None


def _error(name: str, why: str, kind: Type[AbsentNameError]) -> AbsentNameError:
    return kind(f"paceline.{name} does not exist: {why}. See docs/porting/ray_train.md")


def explain(module: str) -> None:
    """Makes a module and its classes raise the errors of their rows. A module that has any calls it at its end."""
    this: Any = sys.modules[module]
    below = module.removeprefix("paceline").lstrip(".")

    def absent(name: str) -> Any:
        if known := error(f"{below}.{name}".lstrip(".")):
            raise known
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    this.__getattr__ = absent
    # An import hides the error of __getattr__, but asks the finders for what a package lacks: _aliases.Finder raises it.
    vars(this).setdefault("__path__", [])
    for full in ROWS:
        owner, _, name = full.rpartition(".")
        place, _, cls = owner.rpartition(".")
        if place == below and isinstance(known := vars(this).get(cls), type) and not hasattr(known, name):
            setattr(known, name, _Absent(full))


class _Absent:
    """An attribute that is not there, of a class and its objects."""

    def __init__(self, name: str):
        self._name = name

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        raise _error(self._name, *ROWS[self._name])
