"""Ranks that stop together: rank zero decides, all are told; metrics averaged by torchmetrics."""

import os
import tempfile

import torch
import torchmetrics

import ray.train
import ray.train.collective
import ray.train.torch
from ray.train import Checkpoint, CheckpointConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

outcome = {}


def train_func(config):
    rank = ray.train.get_context().get_world_rank()
    mean = torchmetrics.MeanMetric()
    best, waited = None, 0
    for epoch in range(20):
        for value in range(3):
            mean.update(torch.tensor(abs(epoch - 4.0) + rank + value))
        loss = mean.compute().item()
        mean.reset()
        if best is None or loss < best:
            best, waited = loss, 0
        else:
            waited += 1
        with tempfile.TemporaryDirectory() as folder:
            torch.save({"epoch": epoch}, os.path.join(folder, "state.pt"))
            ray.train.report({"loss": loss, "epoch": epoch}, checkpoint=Checkpoint.from_directory(folder) if rank == 0 else None)
        if ray.train.collective.broadcast_from_rank_zero(waited >= config["patience"]):
            return epoch


result = TorchTrainer(
    train_func,
    train_loop_config={"patience": 2},
    scaling_config=ScalingConfig(num_workers=2),
    run_config=RunConfig(
        name="early",
        storage_path=os.path.abspath("results"),
        checkpoint_config=CheckpointConfig(num_to_keep=1, checkpoint_score_attribute="loss", checkpoint_score_order="min"),
    ),
).fit()
outcome["stopped"] = result.return_value
outcome["metrics"] = result.metrics
outcome["kept"] = [metrics for _, metrics in result.best_checkpoints]
outcome["best"] = result.get_best_checkpoint("loss", "min").path == result.best_checkpoints[-1][0].path
