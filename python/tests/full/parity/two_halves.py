"""Optimizer, scheduler and random state in a checkpoint: a run in two halves equals one in a piece."""

import os
import tempfile

import torch

import ray.train
import ray.train.torch
from ray.train import Checkpoint, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

outcome = {}


def train_func(config):
    torch.manual_seed(ray.train.get_context().get_world_rank())
    model = ray.train.torch.prepare_model(torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Dropout(0.5)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    rank = ray.train.get_context().get_world_rank()
    start = 0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            state = torch.load(os.path.join(folder, f"rank_{rank}.pt"))
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        scheduler.load_state_dict(state["scheduler"])
        torch.set_rng_state(state["random"])
        start = state["epoch"] + 1
    losses = []
    for epoch in range(start, config["epochs"]):
        loss = (model(torch.ones(4, 3)) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
        with tempfile.TemporaryDirectory() as folder:
            state = {
                "model": model.module.state_dict(),
                "optimizer": optimizer.state_dict(),
                "scheduler": scheduler.state_dict(),
                "random": torch.get_rng_state(),
                "epoch": epoch,
            }
            torch.save(state, os.path.join(folder, f"rank_{rank}.pt"))
            metrics = {"loss": loss.item(), "lr": scheduler.get_last_lr()[0]}
            ray.train.report(metrics, checkpoint=Checkpoint.from_directory(folder))
    return losses


def fit(name, epochs):
    return TorchTrainer(
        train_func,
        train_loop_config={"epochs": epochs},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name=name, storage_path=os.path.abspath("results")),
    ).fit()


whole = fit("whole", 6)
halves = [fit("halves", 3), fit("halves", 6)]
outcome["whole"] = whole.return_value
outcome["equal"] = halves[0].return_value + halves[1].return_value == whole.return_value
outcome["metrics"] = [whole.metrics, halves[1].metrics]
