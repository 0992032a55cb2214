"""Accelerate inside a train loop: its state, its gathered metric, and a checkpoint of rank zero."""

import os
import tempfile

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

import ray.train
from ray.train import Checkpoint, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

outcome = {}


def train_func(config):
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"])
    inputs = torch.arange(96.0).reshape(32, 3) / 96
    loader = DataLoader(TensorDataset(inputs, inputs.sum(1, keepdim=True)), batch_size=4)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for epoch in range(2):
        total = 0.0
        for features, targets in loader:
            with accelerator.accumulate(model):
                loss = torch.nn.functional.mse_loss(model(features), targets)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            total += accelerator.gather(loss.detach().reshape(1)).sum().item()
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = None
            if accelerator.is_main_process:
                accelerator.save(accelerator.unwrap_model(model).state_dict(), os.path.join(folder, "weights.pt"))
                checkpoint = Checkpoint.from_directory(folder)
            ray.train.report({"total": total, "epoch": epoch}, checkpoint=checkpoint)
    return {
        "processes": accelerator.num_processes,
        "main": accelerator.is_main_process,
        "device": accelerator.device.type,
        "type": str(accelerator.distributed_type),
    }


result = TorchTrainer(
    train_func,
    train_loop_config={"lr": 0.2},
    scaling_config=ScalingConfig(num_workers=2),
    run_config=RunConfig(name="accelerate", storage_path=os.path.abspath("results")),
).fit()
outcome["metrics"] = result.metrics
outcome["returned"] = result.return_value
with result.checkpoint.as_directory() as folder:
    outcome["weights"] = torch.load(os.path.join(folder, "weights.pt"))["weight"].tolist()
