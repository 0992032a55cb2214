"""Checkpoints that are validated on the side, with arguments for one and with defaults for all."""

import os
import tempfile

import ray.train
from ray.train import (
    Checkpoint,
    CheckpointConfig,
    CheckpointConsistencyMode,
    RunConfig,
    ScalingConfig,
    ValidationConfig,
    ValidationTaskConfig,
)
from ray.train.torch import TorchTrainer

outcome = {}


def validate(checkpoint, bonus=0):
    with checkpoint.as_directory() as folder, open(os.path.join(folder, "score")) as file:
        score = int(file.read())
    if score == 3:
        raise RuntimeError("this one cannot be validated")
    return {"score": score + bonus, "validated": True}


def train_func():
    rank = ray.train.get_context().get_world_rank()
    for score in range(5):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "score"), "w") as file:
                file.write(str(score))
            validation = {0: False, 1: True, 2: ValidationTaskConfig(fn_kwargs={"bonus": 100}), 3: True, 4: True}[score]
            checkpoint = Checkpoint.from_directory(folder) if rank == 0 else None
            ray.train.report({"score": -1, "step": score}, checkpoint, validation=validation if checkpoint else False)
    known = ray.train.get_all_reported_checkpoints(CheckpointConsistencyMode.VALIDATED)
    return sorted([one.metrics["step"], one.status.name, one.metrics["score"]] for one in known)


result = TorchTrainer(
    train_func,
    validation_config=ValidationConfig(fn=validate, task_config=ValidationTaskConfig(fn_kwargs={"bonus": 10})),
    scaling_config=ScalingConfig(num_workers=2),
    run_config=RunConfig(
        name="validated",
        storage_path=os.path.abspath("results"),
        checkpoint_config=CheckpointConfig(checkpoint_score_attribute="score"),
    ),
).fit()
outcome["known"] = result.return_value
outcome["best"] = [metrics for _, metrics in result.best_checkpoints]
outcome["metrics"] = result.metrics
outcome["error"] = result.error
outcome["frame"] = sorted(result.metrics_dataframe["step"])
