"""Trains twice: once undisturbed, and once with a worker that is killed in the middle of an epoch. Then it prints both
curves, which are equal to the last digit.

    python examples/python/resume_after_failure.py
    python examples/python/resume_after_failure.py --kill-at-step 71 --num-workers 4
    python examples/python/resume_after_failure.py --kill-at-step 0      # nobody is killed

After the failure all workers restart from the latest checkpoint, and repeat the steps since then with the same data.
Three things in the train loop achieve this. It reports checkpoints. It loads the latest one at its top. And it tells
the sampler the epoch. The only other thing to set is how often the run may fail: FailureConfig.max_failures.
"""

import argparse
import math
import os
import signal
import sys
import tempfile

import torch
from torch.utils.data import DataLoader, TensorDataset

from paceline.train import (
    Checkpoint,
    FailureConfig,
    RunConfig,
    ScalingConfig,
    UserCallback,
    get_checkpoint,
    get_context,
    report,
)
from paceline.train.torch import TorchTrainer, prepare_data_loader, prepare_model

STEPS_PER_EPOCH = 16


def train_loop(config):
    context = get_context()
    x = torch.linspace(-1, 1, 64 * STEPS_PER_EPOCH).unsqueeze(1)
    rows = TensorDataset(x, torch.sin(math.pi * x))
    loader = prepare_data_loader(DataLoader(rows, batch_size=64 // context.get_world_size(), shuffle=True))
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(1, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)
    )
    model = prepare_model(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    start = 0
    if checkpoint := get_checkpoint():
        with checkpoint.as_directory() as folder:
            state = torch.load(os.path.join(folder, "state.pt"), weights_only=True)
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        start = state["epoch"] + 1
        print(f"attempt {context.get_attempt()} goes on with epoch {start}")

    for epoch in range(start, config["epochs"]):
        loader.sampler.set_epoch(epoch)  # which decides in what order the data comes
        for step, (inputs, wanted) in enumerate(loader, epoch * STEPS_PER_EPOCH + 1):
            loss = torch.nn.functional.mse_loss(model(inputs), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step == config["kill_at_step"] and context.get_attempt() == 1 and context.get_world_rank() == 0:
                print(f"step {step} of epoch {epoch}: this worker kills itself", flush=True)
                os.kill(os.getpid(), signal.SIGKILL)  # as the kernel does when memory is short
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = None
            if context.get_world_rank() == 0:
                state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
                torch.save(state, os.path.join(folder, "state.pt"))
                checkpoint = Checkpoint.from_directory(folder)
            report({"epoch": epoch, "loss": loss.item()}, checkpoint)


class Failures(UserCallback):
    """Collects, in the driver, what has become of workers: of the one that fails, and of those that wait for it."""

    def __init__(self):
        self.count = 0
        self.texts = []

    def after_exception(self, run_context, worker_exceptions):
        self.count += 1
        self.texts += [str(error).splitlines()[0] for error in worker_exceptions.values()]


def train(options, kill_at_step, failures):
    result = TorchTrainer(
        train_loop,
        train_loop_config={"epochs": options.epochs, "kill_at_step": kill_at_step},
        scaling_config=ScalingConfig(num_workers=options.num_workers, threads_per_worker=1),
        run_config=RunConfig(
            storage_path=options.storage_path, failure_config=FailureConfig(max_failures=1), callbacks=[failures]
        ),
    ).fit()
    if result.exit_code:  # SIGTERM has stopped it, for example
        sys.exit(result.exit_code)
    history = result.metrics_history.to_pandas()  # each report of each rank, with the attempt that made it
    return history[history["rank"] == 0]


def main(options):
    failures = Failures()
    undisturbed = train(options, 0, failures)
    killed = train(options, options.kill_at_step, failures)
    print(f"\nfailures: {failures.count}", *failures.texts, sep="\n  ")
    print("\n epoch   loss undisturbed   loss with failures   attempt")
    for calm, restarted in zip(undisturbed.itertuples(), killed.itertuples()):
        print(f"{calm.epoch:6} {calm.loss:18.10f} {restarted.loss:20.10f} {restarted.attempt:9}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description="Trains with a worker that is killed on the way, and shows that the curve continues.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "--num-workers", type=int, default=2, choices=(1, 2, 4, 8), help="worker processes; they share a batch of 64"
    )
    parser.add_argument("--epochs", type=int, default=6, help=f"passes over the data, each of {STEPS_PER_EPOCH} steps")
    parser.add_argument("--kill-at-step", type=int, default=56, help="step that kills the worker, from 1; 0: never")
    parser.add_argument("--storage-path", default="results", help="folder of the runs")
    arguments = parser.parse_args()
    if arguments.epochs < 1:
        parser.error(f"argument --epochs: {arguments.epochs}; allowed: 1 or more")
    main(arguments)
