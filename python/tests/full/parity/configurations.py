"""Configurations as objects: defaults, what they derive, equality, copies."""

import copy
import dataclasses
import os
import pickle

import ray.train
from ray.train import CheckpointConfig, FailureConfig, LoggingConfig, RunConfig, ScalingConfig

outcome = {}


def scaling(**settings):
    config = ScalingConfig(**settings)
    return {
        "workers": config.num_workers,
        "gpu": config.use_gpu,
        "cpus": config.num_cpus_per_worker,
        "gpus": config.num_gpus_per_worker,
        "others": config.additional_resources_per_worker,
        "total": config.total_resources,
        "strategy": config.placement_strategy,
    }


outcome["default"] = scaling()
outcome["four"] = scaling(num_workers=4)
outcome["gpus"] = scaling(num_workers=2, use_gpu=True)
outcome["resources"] = scaling(num_workers=2, resources_per_worker={"CPU": 3, "extra": 1})
outcome["fractions"] = scaling(num_workers=2, use_gpu=True, resources_per_worker={"CPU": 2, "GPU": 0.5})
elastic = ScalingConfig(num_workers=(2, 4))
outcome["elastic"] = [elastic.min_workers, elastic.max_workers, elastic.elasticity_enabled]
run = RunConfig()
outcome["name"] = isinstance(run.name, str) and len(run.name) > 0
outcome["home"] = os.path.dirname(run.storage_path) == os.path.expanduser("~")
outcome["parts"] = [run.storage_filesystem, run.callbacks, run.worker_runtime_env]
outcome["failures"] = [run.failure_config.max_failures, run.failure_config.controller_failure_limit]
outcome["checkpoints"] = [
    run.checkpoint_config.num_to_keep,
    run.checkpoint_config.checkpoint_score_attribute,
    run.checkpoint_config.checkpoint_score_order,
]
outcome["equal"] = [
    FailureConfig(max_failures=1) == FailureConfig(max_failures=1),
    CheckpointConfig(num_to_keep=1) == CheckpointConfig(num_to_keep=2),
    ScalingConfig(num_workers=2) == ScalingConfig(num_workers=2),
]
changed = dataclasses.replace(ScalingConfig(num_workers=2), num_workers=3)
copied = copy.deepcopy(CheckpointConfig(num_to_keep=3, checkpoint_score_attribute="a"))
pickled = pickle.loads(pickle.dumps(RunConfig(name="a", storage_path="/tmp/a")))
outcome["copies"] = [changed.num_workers, copied.num_to_keep, copied.checkpoint_score_attribute, pickled.name, pickled.storage_path]
outcome["dataclasses"] = [dataclasses.is_dataclass(kind) for kind in (ScalingConfig, RunConfig, FailureConfig, CheckpointConfig)]
outcome["levels"] = [LoggingConfig(log_level=level).log_level for level in ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")]
outcome["enumerations"] = {
    kind.__name__: {member.name: member.value for member in kind}
    for kind in (ray.train.CheckpointUploadMode, ray.train.CheckpointConsistencyMode, ray.train.ReportedCheckpointStatus)
}
