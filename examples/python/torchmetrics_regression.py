"""Fits a curve, and measures it with TorchMetrics over all workers: R², the mean loss of training and of validation.

    python examples/python/torchmetrics_regression.py

A metric sees only its worker's data. compute() combines the parts of all workers, so every worker has the same numbers,
which equal those of a single process. --check shows it by measuring again in one process. The program needs `pip
install torchmetrics`. If you only need a mean, report(…, reduce="mean") is enough.
"""

import argparse
import os
import sys
import tempfile

import torch
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics import MeanMetric, R2Score

from paceline.train import Checkpoint, RunConfig, ScalingConfig, get_checkpoint, get_context, report
from paceline.train.torch import TorchTrainer, get_device, prepare_data_loader, prepare_model


def curve(points, seed):
    """Points of ``sin(3 x) + x²`` with a little noise."""
    numbers = torch.Generator().manual_seed(seed)
    x = torch.rand(points, 1, generator=numbers) * 4 - 2
    return TensorDataset(x, torch.sin(3 * x) + x**2 + 0.1 * torch.randn(points, 1, generator=numbers))


def network():
    return torch.nn.Sequential(torch.nn.Linear(1, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.Tanh(),
                               torch.nn.Linear(64, 1))  # fmt: skip


def validate(model, loader, device):
    """R² and the mean loss over the rows of all workers."""
    r2, loss = R2Score().to(device), MeanMetric().to(device)
    with torch.no_grad():
        for x, y in loader:
            foretold = model(x)
            r2.update(foretold.flatten(), y.flatten())
            loss.update(mse_loss(foretold, y), weight=len(x))  # the last batch may be a smaller one
    return {"r2": r2.compute().item(), "validation_loss": loss.compute().item()}


def train_loop(config):
    device = get_device()
    batch_size = 64 // get_context().get_world_size()
    loader = prepare_data_loader(DataLoader(curve(4096, seed=1), batch_size, shuffle=True))
    validation_loader = prepare_data_loader(DataLoader(curve(1024, seed=2), batch_size))
    torch.manual_seed(0)
    model = prepare_model(network())
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    start = 1
    if checkpoint := get_checkpoint():
        with checkpoint.as_directory() as folder:
            state = torch.load(os.path.join(folder, "state.pt"), weights_only=True)
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        start = state["epoch"] + 1

    train_loss = MeanMetric().to(device)
    for epoch in range(start, config["epochs"] + 1):
        loader.sampler.set_epoch(epoch)
        for x, y in loader:
            loss = mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            train_loss.update(loss.detach(), weight=len(x))
        metrics = {"epoch": epoch, "train_loss": train_loss.compute().item(), **validate(model, validation_loader, device)}
        train_loss.reset()
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = None
            if get_context().get_world_rank() == 0:
                state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
                torch.save(state, os.path.join(folder, "state.pt"))
                checkpoint = Checkpoint.from_directory(folder)
            report(metrics, checkpoint)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description="Fits a curve and measures with TorchMetrics over all workers.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--num-workers", type=int, default=2, choices=(1, 2, 4, 8), help="worker processes; they share a batch")
    parser.add_argument("--use-gpu", action="store_true", help="one GPU for each worker")
    parser.add_argument("--epochs", type=int, default=10, help="passes over the points")
    parser.add_argument("--check", action="store_true", help="measure the result once more, in one process")
    parser.add_argument("--name", help="name of the run; the name of an unfinished run continues it")
    parser.add_argument("--storage-path", default="results", help="folder of the runs")
    options = parser.parse_args()
    if options.epochs < 1:
        parser.error(f"argument --epochs: {options.epochs}; allowed: 1 or more")
    if options.use_gpu and (gpus := torch.cuda.device_count()) < options.num_workers:
        parser.error(f"argument --use-gpu: GPUs needed: {options.num_workers}, one for each worker; found: {gpus}")

    result = TorchTrainer(
        train_loop,
        train_loop_config={"epochs": options.epochs},
        scaling_config=ScalingConfig(num_workers=options.num_workers, use_gpu=options.use_gpu),
        run_config=RunConfig(name=options.name, storage_path=options.storage_path),
    ).fit()
    if result.exit_code:  # SIGTERM has stopped it, for example
        sys.exit(result.exit_code)
    print(result.metrics_dataframe[["epoch", "train_loss", "validation_loss", "r2"]].to_string(index=False))
    if options.check:
        model = network()
        with result.checkpoint.as_directory() as folder:
            state = torch.load(os.path.join(folder, "state.pt"), map_location="cpu", weights_only=True)
        model.load_state_dict(state["model"])
        alone = validate(model, DataLoader(curve(1024, seed=2), 64), "cpu")
        print(f"in one process: validation_loss {alone['validation_loss']:.6f}, r2 {alone['r2']:.6f}")
