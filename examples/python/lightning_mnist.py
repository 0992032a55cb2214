"""Trains a small network to read the MNIST digits with PyTorch Lightning.

    python examples/python/lightning_mnist.py                        # less than half a minute on two cores
    python examples/python/lightning_mnist.py --report-every 40      # in steps, instead of once in each epoch
    python examples/python/lightning_mnist.py --name mine            # interrupt it, run it again: it goes on

The LightningModule is the same as without Paceline. Three arguments of the Trainer come from Paceline: the strategy,
the environment, and the callback that reports metrics and checkpoints. It needs `pip install lightning`.
"""

import argparse
import contextlib
import os
import sys

import lightning.pytorch as pl
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

from paceline.train import FailureConfig, RunConfig, ScalingConfig, get_checkpoint, get_context
from paceline.train.lightning import DDPStrategy, LightningEnvironment, TrainReportCallback, prepare_trainer
from paceline.train.torch import TorchTrainer
from vision.mnist import Mnist

GLOBAL_BATCH_SIZE = 128


class Reader(pl.LightningModule):
    """Two convolutions and two layers that read a digit."""

    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Conv2d(1, 8, 5, stride=2), torch.nn.ReLU(), torch.nn.Conv2d(8, 16, 3, stride=2), torch.nn.ReLU(),
            torch.nn.Flatten(), torch.nn.Linear(400, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10),
        )  # fmt: skip

    def training_step(self, batch, number):
        images, labels = batch
        loss = cross_entropy(self.net(images), labels)
        self.log("loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, number):
        images, labels = batch
        right = (self.net(images).argmax(1) == labels).float().mean()
        self.log("accuracy", right, sync_dist=True)  # of all workers

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=2e-3)


def train_loop(config):
    batch_size = GLOBAL_BATCH_SIZE // get_context().get_world_size()
    digits = DataLoader(Mnist(config["data"], train=True, limit=config["train_digits"]), batch_size, shuffle=True)
    test_digits = DataLoader(Mnist(config["data"], train=False, limit=2_000), 250)
    pl.seed_everything(0)
    trainer = pl.Trainer(
        max_epochs=config["epochs"],
        accelerator="auto",
        devices="auto",
        strategy=DDPStrategy(),
        plugins=[LightningEnvironment()],
        callbacks=[TrainReportCallback(every_n_train_steps=config["report_every"] or None)],
        enable_checkpointing=False,  # the callback does it
        enable_progress_bar=False,
        enable_model_summary=False,
        logger=False,
    )
    checkpoint = get_checkpoint()
    with checkpoint.as_directory() if checkpoint else contextlib.nullcontext() as folder:
        file = folder and os.path.join(folder, TrainReportCallback.CHECKPOINT_NAME)
        prepare_trainer(trainer).fit(Reader(), digits, test_digits, ckpt_path=file)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description="Learns to read digits with PyTorch Lightning.", formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--num-workers", type=int, default=2, choices=(1, 2, 4, 8), help="worker processes; they share a batch")
    parser.add_argument("--use-gpu", action="store_true", help="one GPU for each worker")
    parser.add_argument("--epochs", type=int, default=3, help="passes over the digits")
    parser.add_argument("--train-digits", type=int, default=20_000, help="digits to train on")
    parser.add_argument("--report-every", type=int, default=0, help="steps from one report to the next; 0: one in each epoch")
    parser.add_argument("--data", default="data", help="folder of the digits, which are fetched if missing")
    parser.add_argument("--name", help="name of the run; the name of an unfinished run continues it")
    parser.add_argument("--storage-path", default="results", help="folder of the runs")
    options = parser.parse_args()
    if options.epochs < 1 or options.report_every < 0:
        parser.error("arguments --epochs and --report-every: allowed: 1 or more, 0 or more")
    if not GLOBAL_BATCH_SIZE <= options.train_digits <= 60_000:
        parser.error(f"argument --train-digits: {options.train_digits}; allowed: {GLOBAL_BATCH_SIZE} to 60000")
    if options.use_gpu and (gpus := torch.cuda.device_count()) < options.num_workers:
        parser.error(f"argument --use-gpu: GPUs needed: {options.num_workers}, one for each worker; found: {gpus}")

    test_digits = Mnist(options.data, train=False)  # fetched while the terminal is free to say so
    result = TorchTrainer(
        train_loop,
        train_loop_config=vars(options),
        scaling_config=ScalingConfig(num_workers=options.num_workers, use_gpu=options.use_gpu),
        run_config=RunConfig(
            name=options.name, storage_path=options.storage_path, failure_config=FailureConfig(max_failures=3)
        ),
    ).fit()
    if result.exit_code:  # SIGTERM has stopped it, for example
        sys.exit(result.exit_code)
    print(result.metrics_dataframe[["epoch", "step", "loss", "accuracy"]].to_string(index=False))
    model = Reader()
    with result.checkpoint.as_directory() as folder:
        state = torch.load(os.path.join(folder, TrainReportCallback.CHECKPOINT_NAME), map_location="cpu", weights_only=True)
    model.load_state_dict(state["state_dict"])
    images = torch.stack([test_digits[i][0] for i in range(9)])
    with torch.no_grad():
        read = model.net(images).argmax(1).tolist()
    print(f"reads {read}, where {test_digits.labels[:9].tolist()} is written")
