"""What get_checkpoint and get_all_reported_checkpoints say inside the loop, report by report."""

import os
import tempfile

import ray.train
from ray.train import Checkpoint, CheckpointConfig, CheckpointConsistencyMode, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

outcome = {}


def train_func():
    seen = [ray.train.get_checkpoint() is None, len(ray.train.get_all_reported_checkpoints())]
    for step, score in enumerate([2, 5, 1, 4]):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "step"), "w") as file:
                file.write(str(step))
            ray.train.report({"score": score, "step": step}, checkpoint=Checkpoint.from_directory(folder))
        with ray.train.get_checkpoint().as_directory() as folder:
            latest = int(open(os.path.join(folder, "step")).read())
        known = ray.train.get_all_reported_checkpoints(consistency_mode=CheckpointConsistencyMode.COMMITTED)
        seen.append([latest, [one.metrics["step"] for one in known], sorted({one.status.name for one in known})])
    validated = ray.train.get_all_reported_checkpoints(CheckpointConsistencyMode.VALIDATED, timeout_s=30)
    seen.append([one.metrics for one in validated])
    return seen


result = TorchTrainer(
    train_func,
    scaling_config=ScalingConfig(num_workers=2),
    run_config=RunConfig(
        name="seen",
        storage_path=os.path.abspath("results"),
        checkpoint_config=CheckpointConfig(num_to_keep=2, checkpoint_score_attribute="score"),
    ),
).fit()
outcome["seen"] = result.return_value
outcome["kept"] = [metrics for _, metrics in result.best_checkpoints]
outcome["metrics"] = result.metrics
