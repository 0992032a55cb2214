"""Which checkpoints stay, by score in both orders, by a nested metric, and with scores that are missing or no number."""

import os
import tempfile

import ray.train
from ray.train import Checkpoint, CheckpointConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

outcome = {}


def train_func(config):
    for step, metrics in enumerate(config["reports"]):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, f"step_{step}"), "w") as file:
                file.write("here")
            ray.train.report({**metrics, "step": step}, checkpoint=Checkpoint.from_directory(folder))


def kept(name, reports, **settings):
    result = TorchTrainer(
        train_func,
        train_loop_config={"reports": reports},
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(
            name=name, storage_path=os.path.abspath("results"), checkpoint_config=CheckpointConfig(**settings)
        ),
    ).fit()
    steps = [metrics["step"] for _, metrics in result.best_checkpoints]
    existing = [os.path.isdir(checkpoint.path) for checkpoint, _ in result.best_checkpoints]
    return [steps, all(existing), result.metrics["step"]]


scores = [{"score": value} for value in (3.0, 9.0, 1.0, 7.0, 2.0)]
outcome["highest"] = kept("highest", scores, num_to_keep=2, checkpoint_score_attribute="score")
nested = [{"eval": {"score": value}} for value in (3.0, 9.0, 1.0, 7.0)]
lowest = {"checkpoint_score_attribute": "eval/score", "checkpoint_score_order": "min"}
outcome["lowest, nested"] = kept("lowest", nested, num_to_keep=1, **lowest)
holes = [{"score": 3.0}, {}, {"score": float("nan")}, {"score": 1.0}, {"score": float("inf")}, {"score": 2}]
outcome["holes"] = kept("holes", holes, num_to_keep=4, checkpoint_score_attribute="score")
