"""vanilla_ddp.py with TorchTrainer: the script no longer has the code that the trainer replaces.

    python examples/python/ddp_with_trainer.py --num-workers 2 --epochs 10

There is no launcher, no rank in an environment variable, no process group to make, no device to choose, no collective
for a metric, and no snapshot file. The run has a folder with its checkpoints and metrics. When a worker dies, the
workers restart. The same --name continues the run.
"""

import argparse
import math
import os
import sys
import tempfile

import torch
from torch.utils.data import DataLoader, TensorDataset

from paceline.train import (
    Checkpoint,
    FailureConfig,
    RunConfig,
    ScalingConfig,
    get_checkpoint,
    get_context,
    report,
)
from paceline.train.torch import TorchTrainer, prepare_data_loader, prepare_model


def spirals(points, seed):
    """``points`` points of two spirals, with the spiral's number."""
    numbers = torch.Generator().manual_seed(seed)
    label = torch.arange(points) % 2
    radius = torch.rand(points, generator=numbers)
    angle = 2 * math.pi * radius + math.pi * label + 0.2 * torch.randn(points, generator=numbers)
    return TensorDataset(torch.stack([radius * angle.cos(), radius * angle.sin()], 1), label)


def network():
    return torch.nn.Sequential(
        torch.nn.Linear(2, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2)
    )


def train_loop(config):
    # 1. The workers are in a process group already.
    # 2. A loader of all data becomes one of this worker's share, on its device.
    batch_size = 64 // get_context().get_world_size()
    loader = prepare_data_loader(DataLoader(spirals(4096, seed=1), batch_size, shuffle=True))

    # 3. The model goes to the worker's device and averages its gradients in backward().
    torch.manual_seed(0)
    model = prepare_model(network())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    # 4. The latest checkpoint of the run, whoever wrote it.
    start = 1
    if checkpoint := get_checkpoint():
        with checkpoint.as_directory() as folder:
            state = torch.load(os.path.join(folder, "state.pt"), weights_only=True)
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        start = state["epoch"] + 1

    for epoch in range(start, config["epochs"] + 1):
        loader.sampler.set_epoch(epoch)
        loss_sum = 0
        for points, labels in loader:
            loss = torch.nn.functional.cross_entropy(model(points), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss_sum += loss.item() / len(loader)
        # 5. report() takes the mean of all workers, and rank 0's files.
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = None
            if get_context().get_world_rank() == 0:
                state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
                torch.save(state, os.path.join(folder, "state.pt"))
                checkpoint = Checkpoint.from_directory(folder)
            report({"epoch": epoch, "loss": loss_sum}, checkpoint, reduce="mean")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description="Learns two spirals with a TorchTrainer.", formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--num-workers", type=int, default=2, help="worker processes")
    parser.add_argument("--epochs", type=int, default=10, help="passes over the points")
    parser.add_argument("--use-gpu", action="store_true", help="one GPU for each worker")
    parser.add_argument("--name", help="name of the run; the name of an unfinished run continues it")
    parser.add_argument("--storage-path", default="results", help="folder of the runs")
    options = parser.parse_args()
    if options.num_workers < 1 or options.epochs < 1:
        parser.error("arguments --num-workers and --epochs: allowed: 1 or more")
    if options.use_gpu and (gpus := torch.cuda.device_count()) < options.num_workers:
        parser.error(f"argument --use-gpu: GPUs needed: {options.num_workers}, one for each worker; found: {gpus}")

    result = TorchTrainer(
        train_loop,
        train_loop_config={"epochs": options.epochs},
        scaling_config=ScalingConfig(num_workers=options.num_workers, use_gpu=options.use_gpu),
        run_config=RunConfig(
            name=options.name, storage_path=options.storage_path, failure_config=FailureConfig(max_failures=3)
        ),
    ).fit()
    if result.exit_code:  # SIGTERM has stopped it, for example
        sys.exit(result.exit_code)
    model = network()
    with result.checkpoint.as_directory() as folder:
        model.load_state_dict(torch.load(os.path.join(folder, "state.pt"), map_location="cpu", weights_only=True)["model"])
    points, labels = spirals(1000, seed=2).tensors
    with torch.no_grad():
        right = (model(points).argmax(1) == labels).float().mean().item()
    print(result.metrics_dataframe[["epoch", "loss"]].to_string(index=False))
    print(f"{right:.1%} of 1,000 new points are on the spiral that the network says")
