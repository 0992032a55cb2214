"""Names of Ray's that Paceline does not have, with what to use instead: the one list of them.

Whoever uses such a name gets an error with the reason. A test compares everything else with Ray's public tree
(python/tests/ray_tree.py).
"""

from typing import Any, Callable, Optional, TypeVar

Class = TypeVar("Class", bound=type)

_TASKS = "Paceline trains, and runs no tasks or actors; a program may use Ray's own beside it (import ray)"
_DATA = "the data engine is not there yet; load the data in the train loop (paceline.train.torch.prepare_data_loader)"
_TUNE = "Paceline does not search hyperparameters; call fit() for each configuration"
_PYTORCH = "Paceline trains with PyTorch (paceline.train.torch.TorchTrainer)"
_MACHINERY = "Ray Train needs it inside; paceline.train has all that a script needs"

# By reason: names below paceline. A name stands for what is in it as well, except for what Paceline has.
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
        data air.DataBatchType air.data_batch_type air.util.data_batch_conversion air.util.object_extensions
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
    "see get_metadata() and set_metadata()": """
        train.torch.TorchCheckpoint.get_preprocessor train.torch.TorchCheckpoint.set_preprocessor""",
    "Paceline writes other files and reads other variables; docs/porting/ray_train.md has them": """
        air.constants train.constants""",
    _MACHINERY: """
        air.session air.integrations.wandb train.base_trainer.PREPROCESSOR_DEPRECATION_MESSAGE train.trainer.TrainingIterator
        train.torch.config.TorchConfigContextManager train.torch.torch_checkpoint.ENCODED_DATA_KEY
        train.torch.train_loop_utils.TorchWorkerProfiler train.lightning.RayTrainReportCallback.tmpdir_prefix
        train.torch.TorchTrainer.train_run_context
        train.data_parallel_trainer.DataParallelTrainer.train_run_context""",
}
REASONS = {name: why for why, names in _REASONS.items() for name in names.split()}


class AbsentNameError(AttributeError, NotImplementedError):
    """A name of Ray's was used that Paceline does not have."""


class AbsentModuleError(ImportError, NotImplementedError):
    """The same, where a program imports it."""


def reason(name: str) -> Optional[str]:
    """Why Paceline does not have `name`, which is below paceline; None: the list does not say."""
    while name:
        if name in REASONS:
            return REASONS[name]
        name = name.rpartition(".")[0]
    return None


def message(name: str, why: str) -> str:
    """The text of the error for `name`, which is below paceline."""
    return f"paceline.{name} does not exist: {why}. See docs/porting/ray_train.md"


def attributes(module: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module."""

    def absent(name: str) -> Any:
        full = f"{module}.{name}".removeprefix("paceline.")
        if why := reason(full):
            raise AbsentNameError(message(full, why))
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return absent


def without(owner: str) -> Callable[[Class], Class]:
    """Decorates a class, `owner` in the list: whoever uses a member that it has not gets the reason."""

    def decorate(cls: Class) -> Class:
        for full, why in REASONS.items():
            place, _, name = full.rpartition(".")
            if place == owner:
                setattr(cls, name, _Absent(message(full, why)))
        return cls

    return decorate


class _Absent:
    """An attribute that is not there, of a class and its objects."""

    def __init__(self, text: str):
        self._text = text

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        raise AbsentNameError(self._text)
