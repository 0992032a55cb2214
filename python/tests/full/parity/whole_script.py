"""A whole script: a rank that fails once, metrics and weights to the last bit, and a second run that goes on."""

import hashlib
import os
import random
import tempfile

import torch
from torch.utils.data import DataLoader, TensorDataset

import ray.train.torch
from ray.train import Checkpoint, CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

outcome = {}


def dataset(rows, seed):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(rows, 8, generator=generator)
    return TensorDataset(inputs, inputs[:, :1].sin() + 0.1 * torch.randn(rows, 1, generator=generator))


def train_loop(config):
    torch.set_num_threads(1)
    context = ray.train.get_context()
    rank = context.get_world_rank()
    ray.train.torch.enable_reproducibility(seed=7)
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(32, 1))
    start = 0
    checkpoint = ray.train.get_checkpoint()
    state = None
    if checkpoint:
        with checkpoint.as_directory() as folder:
            state = torch.load(os.path.join(folder, "state.pt"))
        start = state["epoch"] + 1
        model.load_state_dict(state["model"])
    model = ray.train.torch.prepare_model(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    if state:
        optimizer.load_state_dict(state["optimizer"])
    train_data = ray.train.torch.prepare_data_loader(DataLoader(dataset(203, 1), batch_size=16, shuffle=True))
    test_data = ray.train.torch.prepare_data_loader(DataLoader(dataset(50, 2), batch_size=10))
    torch.manual_seed(100 + rank + 10 * start)
    for epoch in range(start, config["epochs"]):
        train_data.sampler.set_epoch(epoch)
        model.train()
        losses = []
        for inputs, targets in train_data:
            loss = torch.nn.functional.mse_loss(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        model.eval()
        with torch.no_grad():
            test_losses = [torch.nn.functional.mse_loss(model(inputs), targets).item() for inputs, targets in test_data]
        if epoch == 2 and rank == 1 and not os.path.exists(config["mark"]):
            open(config["mark"], "w").close()
            raise RuntimeError("fails once")
        metrics = {"epoch": epoch, "train_loss": sum(losses), "test_loss": sum(test_losses) / len(test_losses),
                   "steps": len(losses), "rank": rank, "seen": random.random()}
        with tempfile.TemporaryDirectory() as folder:
            if rank == 0:
                state = {"epoch": epoch, "model": model.module.state_dict(), "optimizer": optimizer.state_dict()}
                torch.save(state, os.path.join(folder, "state.pt"))
                ray.train.report(metrics, checkpoint=Checkpoint.from_directory(folder))
            else:
                ray.train.report(metrics)
    return {"world_size": context.get_world_size(), "start": start}


def fit(folder, epochs):
    return TorchTrainer(
        train_loop,
        train_loop_config={"epochs": epochs, "mark": os.path.join(folder, "mark")},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            name="parity",
            storage_path=os.path.join(folder, "results"),
            failure_config=FailureConfig(max_failures=1),
            checkpoint_config=CheckpointConfig(checkpoint_score_attribute="test_loss", checkpoint_score_order="min"),
        ),
    ).fit()


def digest(checkpoint):
    with checkpoint.as_directory() as folder:
        weights = torch.load(os.path.join(folder, "state.pt"))["model"]
    return hashlib.sha256(b"".join(value.numpy().tobytes() for value in weights.values())).hexdigest()


def described(result):
    # Epoch 2 is there twice where rank 0 had reported it before rank 1 failed: what was reported is kept.
    history = result.metrics_dataframe.sort_values("epoch", kind="stable").drop_duplicates("epoch", keep="last")
    return {
        "history": history[["epoch", "train_loss", "test_loss", "steps", "rank", "seen"]].to_dict("records"),
        "metrics": result.metrics,
        "weights": digest(result.checkpoint),
        "best": digest(result.get_best_checkpoint("test_loss", "min")),
        "worst": digest(result.get_best_checkpoint("test_loss", "max")),
        "returned": result.return_value,
        "error": result.error,
    }


for epochs in (4, 6):  # the second, of the same name, goes on
    outcome[f"until {epochs}"] = described(fit(os.path.abspath("."), epochs))
