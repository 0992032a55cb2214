"""The smallest complete training in Python: two workers fit a line, with checkpoints and a metrics table.

    python examples/python/quick_start.py
"""

import argparse
import os
import sys
import tempfile

import torch

from paceline.train import Checkpoint, RunConfig, ScalingConfig, get_checkpoint, get_context, report
from paceline.train.torch import TorchTrainer, prepare_data_loader, prepare_model


def train_loop(config):
    inputs = torch.linspace(-1, 1, 256).unsqueeze(1)
    rows = torch.utils.data.TensorDataset(inputs, 3 * inputs - 1)
    loader = prepare_data_loader(torch.utils.data.DataLoader(rows, batch_size=32, shuffle=True))
    model = prepare_model(torch.nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=config["learning_rate"])
    start = 1
    if checkpoint := get_checkpoint():
        with checkpoint.as_directory() as folder:
            state = torch.load(os.path.join(folder, "state.pt"), weights_only=True)
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        start = state["epoch"] + 1
    for epoch in range(start, config["epochs"] + 1):
        losses = []
        for x, y in loader:
            loss = torch.nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        metrics = {"epoch": epoch, "loss": sum(losses) / len(losses)}
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = None
            if get_context().get_world_rank() == 0:
                state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
                torch.save(state, os.path.join(folder, "state.pt"))
                checkpoint = Checkpoint.from_directory(folder)
            report(metrics, checkpoint, reduce="mean")
    return model.module.weight.item(), model.module.bias.item()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description="Fits a line with two workers.", formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--num-workers", type=int, default=2, help="worker processes")
    parser.add_argument("--epochs", type=int, default=10, help="passes over the points")
    parser.add_argument("--storage-path", default="./results", help="folder of the runs")
    parser.add_argument("--name", help="name of the run; the name of a run that was stopped continues it")
    arguments = parser.parse_args()
    if arguments.num_workers < 1 or arguments.epochs < 1:
        parser.error("arguments --num-workers and --epochs: allowed: 1 or more")
    result = TorchTrainer(
        train_loop,
        train_loop_config={"learning_rate": 0.3, "epochs": arguments.epochs},
        scaling_config=ScalingConfig(num_workers=arguments.num_workers),
        run_config=RunConfig(name=arguments.name, storage_path=arguments.storage_path),
    ).fit()
    if result.exit_code:  # SIGTERM has stopped it, for example
        sys.exit(result.exit_code)
    print(result.metrics_dataframe)
    weight, bias = result.return_value
    print(f"y = {weight:.2f} x + {bias:.2f}")
