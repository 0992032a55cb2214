"""An iterable report loop as Ray's page on metrics shows it: aggregated by torch.distributed, only reported by epoch."""

import os
import tempfile

import torch
import torch.distributed as dist

import ray.train
import ray.train.torch
from ray.train import Checkpoint, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

outcome = {}


def train_func(config):
    rank = ray.train.get_context().get_world_rank()
    correct = torch.tensor([2.0 + rank])
    for epoch in range(config["epochs"]):
        total = correct * (epoch + 1)
        dist.all_reduce(total, op=dist.ReduceOp.SUM)
        metrics = {"accuracy": (total / 100).item(), "epoch": epoch, "rank": rank}
        checkpoint = None
        if rank == 1 and epoch == config["epochs"] - 1:
            folder = tempfile.mkdtemp()
            open(os.path.join(folder, "of_rank_1"), "w").close()
            checkpoint = Checkpoint.from_directory(folder)
        ray.train.report(metrics, checkpoint=checkpoint)


result = TorchTrainer(
    train_func,
    train_loop_config={"epochs": 3},
    scaling_config=ScalingConfig(num_workers=2),
    run_config=RunConfig(name="aggregated", storage_path=os.path.abspath("results")),
).fit()
outcome["metrics"] = result.metrics
outcome["file"] = os.path.exists(os.path.join(result.checkpoint.path, "of_rank_1"))
outcome["kept"] = len(result.best_checkpoints)
