"""Folders with names of one's own, again after a restart of the run."""

import os
import tempfile

import ray.train
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

outcome = {}


def train_func(config):
    start = 0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        start = int(os.path.basename(checkpoint.path).rsplit("-", 1)[1])
    for epoch in range(start, 4):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "epoch.txt"), "a") as file:
                file.write(str(epoch))
            name = f"epoch-{epoch}"
            ray.train.report({"epoch": epoch}, Checkpoint.from_directory(folder), checkpoint_dir_name=name)
        if epoch == 2 and not os.path.exists(config["mark"]):
            open(config["mark"], "w").close()
            raise RuntimeError("once")
    return start


result = TorchTrainer(
    train_func,
    train_loop_config={"mark": os.path.abspath("mark")},
    scaling_config=ScalingConfig(num_workers=2),
    run_config=RunConfig(
        name="named", storage_path=os.path.abspath("results"), failure_config=FailureConfig(max_failures=1)
    ),
).fit()
outcome["metrics"] = result.metrics
outcome["started_at"] = result.return_value
outcome["last"] = os.path.basename(result.checkpoint.path)
outcome["folders"] = sorted(name for name in os.listdir(result.path) if name.startswith("epoch"))
outcome["texts"] = [open(os.path.join(result.path, name, "epoch.txt")).read() for name in outcome["folders"]]
