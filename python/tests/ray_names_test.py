"""Ray Train's public names, by list: each is here, or the list says why not."""

import contextlib
import importlib
import inspect
import os
import pickle

import pytest

import paceline
import paceline.train as train
from paceline.train import BackendConfig, DataParallelTrainer, PreemptionInfo, Result, ScalingConfig
from paceline.train.torch import TorchConfig, TorchTrainer

# __all__ of these modules of Ray 2.60.0, and what its documentation shows of others.
NAMES = {
    "ray.train": """
        get_checkpoint get_context get_dataset_shard report BackendConfig Checkpoint CheckpointConfig DataConfig FailureConfig
        Result RunConfig ScalingConfig SyncConfig TrainContext TrainingFailedError TRAIN_DATASET_KEY CheckpointUploadMode
        CheckpointConsistencyMode ControllerError NCCLHangError LoggingConfig PreemptionError PreemptionInfo
        ReportedCheckpoint ReportedCheckpointStatus UserCallback WorkerGroupError ValidationConfig ValidationFn
        ValidationTaskConfig get_all_reported_checkpoints get_preemption_info""",
    "ray.train.torch": """
        TorchTrainer TorchCheckpoint TorchConfig accelerate get_device get_devices prepare_model prepare_optimizer
        prepare_data_loader backward enable_reproducibility""",
    "ray.train.collective": "barrier broadcast_from_rank_zero",
    "ray.train.backend": "Backend BackendConfig",
    "ray.train.context": "TrainContext get_context",
    "ray.train.data_parallel_trainer": "DataParallelTrainer",
    "ray.train.lightning": """
        prepare_trainer RayDDPStrategy RayFSDPStrategy RayDeepSpeedStrategy RayLightningEnvironment RayTrainReportCallback""",
    "ray.train.huggingface.transformers": "prepare_trainer RayTrainReportCallback",
    "ray.train.tensorflow": "TensorflowTrainer TensorflowConfig prepare_dataset_shard",
    "ray.train.xgboost": "RayTrainReportCallback XGBoostCheckpoint XGBoostConfig XGBoostTrainer",
    "ray.train.lightgbm": "RayTrainReportCallback LightGBMCheckpoint LightGBMConfig LightGBMTrainer get_network_params",
    "ray.train.horovod": "HorovodConfig HorovodTrainer",
    "ray.train.v2.jax": "JaxTrainer",
    "ray.air": "DataBatchType RunConfig Result ScalingConfig FailureConfig CheckpointConfig AcquiredResources ResourceRequest",
    "ray.air.config": "CheckpointConfig FailureConfig RunConfig ScalingConfig",
    "ray.air.result": "Result",
    "ray.air.session": """
        report get_checkpoint get_experiment_name get_trial_name get_trial_id get_trial_resources get_trial_dir get_world_size
        get_world_rank get_local_rank get_local_world_size get_node_rank get_dataset_shard""",
    "ray.air.integrations.mlflow": "setup_mlflow MLflowLoggerCallback",
    "ray.air.integrations.wandb": "setup_wandb WandbLoggerCallback",
}
# Names that earlier versions had and that scripts still import.
OLDER_NAMES = {
    "ray.air": "session Checkpoint",
    "ray.air.checkpoint": "Checkpoint",
    "ray": "init shutdown is_initialized nodes cluster_resources available_resources remote get put wait",
}
PYTORCH_ALONE = "Paceline trains with PyTorch"
NOT_HERE = {
    "ray.train.tensorflow": PYTORCH_ALONE,
    "ray.train.xgboost": PYTORCH_ALONE,
    "ray.train.lightgbm": PYTORCH_ALONE,
    "ray.train.horovod": "removed by Ray Train, too: each name raises",
    "ray.train.v2.jax": PYTORCH_ALONE,
    "ray.air.DataBatchType": "a type of the data engine",
    "ray.air.AcquiredResources": "Ray Tune's",
    "ray.air.ResourceRequest": "Ray Tune's",
    "ray.air.session.get_trial_resources": "Ray Tune's placement groups",
}


def listed(table):
    for module, names in table.items():
        for name in names.split():
            if module not in NOT_HERE and f"{module}.{name}" not in NOT_HERE:
                yield module.replace("ray", "paceline", 1), name


def test_signatures_begin_with_rays_arguments():
    ours = {
        ScalingConfig: "trainer_resources num_workers use_gpu resources_per_worker placement_strategy accelerator_type "
        "label_selector use_tpu topology elastic_resize_monitor_interval_s",
        train.RunConfig: "name storage_path storage_filesystem failure_config checkpoint_config callbacks worker_runtime_env",
        train.FailureConfig: "max_failures fail_fast controller_failure_limit max_preemption_failures "
        "relax_collectives_on_preemption preemption_grace_s",
        train.CheckpointConfig: "num_to_keep checkpoint_score_attribute checkpoint_score_order",
        train.DataConfig: "datasets_to_split execution_options enable_shard_locality",
        train.SyncConfig: "sync_period sync_timeout sync_artifacts sync_artifacts_on_checkpoint",
        TorchConfig: "backend init_method timeout_s",
        train.Checkpoint: "path filesystem",
        train.report: "metrics checkpoint checkpoint_dir_name checkpoint_upload_mode delete_local_checkpoint_after_upload "
        "checkpoint_upload_fn validation",
        train.get_all_reported_checkpoints: "consistency_mode timeout_s",
        train.ValidationConfig: "fn task_config ray_remote_kwargs",
        train.ValidationTaskConfig: "fn_kwargs timeout_s",
        paceline.train.torch.prepare_model: "model move_to_device parallel_strategy parallel_strategy_kwargs",
        paceline.train.torch.prepare_data_loader: "data_loader add_dist_sampler move_to_device auto_transfer",
        paceline.train.torch.enable_reproducibility: "seed",
        paceline.train.torch.accelerate: "amp",
    }
    for function, names in ours.items():
        assert " ".join(inspect.signature(function).parameters).startswith(names), function
    trainer = set(inspect.signature(DataParallelTrainer).parameters) | set(inspect.signature(TorchTrainer).parameters)
    rays = "train_loop_per_worker train_loop_config backend_config torch_config scaling_config run_config datasets "
    rays += "dataset_config validation_config metadata resume_from_checkpoint"
    assert trainer >= set(rays.split())


def test_nothing_announces_preemptions_yet(run_config):
    assert DataParallelTrainer(lambda: [train.get_preemption_info()], run_config=run_config()).fit().return_value == [None]
    with pytest.raises(RuntimeError, match="outside a train loop"):
        train.get_preemption_info()


def test_preemption_info_sums_up_its_machines():
    info = PreemptionInfo(deadline_ms=None, preempted_node_to_ranks={"b": [3, 0], "a": [1]})
    assert info.preempted_node_ids == ["a", "b"] and info.preempted_ranks == [0, 1, 3]
    error = pickle.loads(pickle.dumps(train.PreemptionError(info, drain_timed_out=True)))
    assert isinstance(error, train.TrainingFailedError) and error.preemption_info == info and error.drain_timed_out
    assert "[0, 1, 3]" in str(error)


def test_data_config_is_checked():
    train.DataConfig(datasets_to_split=["train"], enable_shard_locality=False)
    with pytest.raises(TypeError, match="'train'"):
        train.DataConfig(datasets_to_split="train")


def test_what_concerned_ray_tune_is_a_deprecation_warning(run_config):
    def loop():
        context = train.get_context()
        raised = []
        for name in ("get_metadata", "get_trial_name", "get_trial_id", "get_trial_resources", "get_trial_dir"):
            try:
                getattr(context, name)()
            except DeprecationWarning:
                raised.append(name)
        return len(raised)

    result = DataParallelTrainer(loop, run_config=run_config()).fit()
    assert result.return_value == 5
    with pytest.raises(DeprecationWarning):
        result.config
    with pytest.raises(DeprecationWarning):
        train.RunConfig(sync_config=train.SyncConfig())


def test_a_backend_wraps_the_train_loop_on_every_worker(run_config):
    class Marked(BackendConfig):
        @property
        def train_func_context(self):
            return marked

    trainer = DataParallelTrainer(lambda: os.environ.get("MARK"), backend_config=Marked(), run_config=run_config())
    assert trainer.fit().return_value == "inside"


@contextlib.contextmanager
def marked():
    os.environ["MARK"] = "inside"
    yield
    del os.environ["MARK"]


def test_a_backend_with_hooks_of_a_controller_is_refused():
    class Hooked(train.Backend):
        def on_start(self, worker_group, backend_config):
            pass

    class HookedConfig(BackendConfig):
        backend_cls = Hooked

    with pytest.raises(NotImplementedError, match="Hooked.on_start"):
        DataParallelTrainer(lambda: None, backend_config=HookedConfig())
    assert isinstance(TorchConfig(), BackendConfig)


def test_results_keep_the_name_of_their_filesystem(run_config):
    result: Result = DataParallelTrainer(lambda: None, run_config=run_config()).fit()
    assert result.filesystem.type_name == "local"


# Last: what they import would be loaded into the workers of the other tests.
@pytest.mark.parametrize(("module", "name"), [*listed(NAMES), *listed(OLDER_NAMES)])
def test_rays_name_is_here(module, name):
    assert hasattr(importlib.import_module(module), name)


def test_reasons_are_for_what_is_really_not_here():
    for name in NOT_HERE:
        ours = name.replace("ray", "paceline", 1)
        module, _, last = ours.rpartition(".")
        with pytest.raises((ImportError, AttributeError)):
            getattr(importlib.import_module(module), last)
