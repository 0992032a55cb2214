"""cifar10_vit.py with a dataset in the place of a DataLoader: a VisionTransformer on the photographs of CIFAR-10.

    python examples/python/train_ddp_with_data.py --num-workers 2 --epochs 1
    python examples/python/train_ddp_with_data.py --quick --num-workers 2 --epochs 2

The photographs are a Parquet file, which is written once. The dataset is described in the driver: what is read, its
order, what is done to each row. Workers get their shares by name; they need no sampler, no set_epoch() and no knowledge
of files. docs/data.md compares both ways.
"""

import argparse
import os
import sys
import tempfile
import time

import numpy
import torch

import paceline.data
from paceline.train import (
    Checkpoint,
    DataConfig,
    RunConfig,
    ScalingConfig,
    get_checkpoint,
    get_context,
    get_dataset_shard,
    report,
)
from paceline.train.torch import TorchTrainer, prepare_model
from vision.cifar10_parquet import cifar10_parquet
from vision.evaluate import evaluate_batches
from vision.vision_transformer import VisionTransformer

LEARNING_RATE = 1e-3
WEIGHT_DECAY = 1e-2


class ToTensor:
    """A picture as torchvision's transform of this name makes it: [channels, height, width] float32 in [0, 1]."""

    def __call__(self, picture: numpy.ndarray) -> torch.Tensor:
        return torch.from_numpy(picture.transpose(2, 0, 1).astype(numpy.float32) / 255)


class Normalize:
    """The channels less their means, in standard deviations, as torchvision's."""

    def __init__(self, mean, std):
        self.mean, self.std = (torch.tensor(values).reshape(-1, 1, 1) for values in (mean, std))

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        return (image - self.mean) / self.std


to_tensor, normalize = ToTensor(), Normalize(mean=(0.4914, 0.4822, 0.4465), std=(0.2470, 0.2435, 0.2616))


def preprocess(row):
    """The function of each row, which runs where the dataset is read."""
    return {"image": normalize(to_tensor(row["image"])), "label": row["label"]}


def train_loop(config):
    rank, world_size = get_context().get_world_rank(), get_context().get_world_size()
    train_shard, test_shard = get_dataset_shard("train"), get_dataset_shard("test")
    # Each iteration is the next epoch, in another order.
    train_batches = train_shard.iter_torch_batches(batch_size=config["batch_size"] // world_size, drop_last=True)
    test_batches = test_shard.iter_torch_batches(batch_size=config["batch_size"] // world_size)

    torch.manual_seed(0)
    model = prepare_model(VisionTransformer(**config["model"]))
    optimizer = torch.optim.AdamW(model.parameters(), LEARNING_RATE, weight_decay=WEIGHT_DECAY, fused=True)
    start = 0
    if checkpoint := get_checkpoint():
        with checkpoint.as_directory() as folder:
            state = torch.load(os.path.join(folder, "state.pt"), weights_only=True)
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        train_shard.load_state_dict(state["data"])
        start = state["epoch"] + 1

    for epoch in range(start, config["epochs"]):
        losses = []
        for step, batch in enumerate(train_batches, 1):
            loss = torch.nn.functional.cross_entropy(model(batch["image"]), batch["label"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if step % 5 == 0 and rank == 0:
                print(f"epoch {epoch}: step {step}, loss {losses[-1]:.3f}")
        test_loss, accuracy = evaluate_batches(model, ((batch["image"], batch["label"]) for batch in test_batches))
        metrics = {"epoch": epoch, "train_loss": sum(losses) / len(losses), "test_loss": test_loss, "accuracy": accuracy}
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = None
            if rank == 0:
                state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch,
                         "data": train_shard.state_dict()}  # fmt: skip
                torch.save(state, os.path.join(folder, "state.pt"))
                checkpoint = Checkpoint.from_directory(folder)
            report(metrics, checkpoint, reduce="mean")
    if rank == 0:
        print(train_shard.stats(), end="")  # what this worker has read, and what it waits for


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Trains a VisionTransformer on CIFAR-10, which a dataset reads from Parquet.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--num-workers", type=int, default=2, help="worker processes; 0: train in this process")
    parser.add_argument("--epochs", type=int, default=1, help="passes over the photographs")
    parser.add_argument("--quick", action="store_true", help="2,048 photographs and a small model: half a minute")
    parser.add_argument("--use-gpu", action="store_true", help="one GPU for each worker")
    parser.add_argument("--batch-size", type=int, default=128, help="photographs in each step, of all workers together")
    parser.add_argument("--name", help="name of the run; the name of an unfinished run continues it")
    parser.add_argument("--data", default="data", help="folder of the photographs, which are fetched if missing")
    parser.add_argument("--storage-path", default="results", help="folder of the runs")
    options = parser.parse_args()
    if options.num_workers < 0 or options.epochs < 1:
        parser.error("arguments --num-workers and --epochs: allowed: 0 or more workers, 1 or more epochs")
    if options.batch_size < 1 or options.batch_size % (options.num_workers or 1):
        parser.error(
            f"argument --num-workers: a batch of {options.batch_size} photographs cannot be shared out to "
            f"{options.num_workers} workers equally"
        )
    needed = max(1, options.num_workers)
    if options.use_gpu and (gpus := torch.cuda.device_count()) < needed:
        parser.error(f"argument --use-gpu: GPUs needed: {needed}, one for each worker; found: {gpus}")
    return options


def main(options: argparse.Namespace) -> None:
    photographs = {
        "train": paceline.data.read_parquet(cifar10_parquet(options.data, train=True)),
        "test": paceline.data.read_parquet(cifar10_parquet(options.data, train=False)),
    }
    model = {}
    if options.quick:
        model = {"num_layers": 4, "num_heads": 4, "hidden_dim": 128, "mlp_dim": 256}
        photographs = {"train": photographs["train"].limit(2_048), "test": photographs["test"].limit(1_000)}
    for name, dataset in photographs.items():
        print(f"{name}: {dataset.count():,} photographs, {dataset.size_bytes() / 1e6:.0f} MB in {dataset.num_blocks()} blocks")
    print(photographs["train"].schema())

    trainer = TorchTrainer(
        train_loop,
        train_loop_config={"model": model, "epochs": options.epochs, "batch_size": options.batch_size},
        datasets={
            "train": photographs["train"].random_shuffle(seed=0).map(preprocess),
            "test": photographs["test"].map(preprocess),
        },
        # In training all workers make equally many steps; in tests each photograph counts once.
        dataset_config=DataConfig(equal={"train": "drop", "test": "uneven"}),
        scaling_config=ScalingConfig(num_workers=options.num_workers, use_gpu=options.use_gpu),
        run_config=RunConfig(name=options.name, storage_path=options.storage_path),
    )
    start = time.monotonic()
    result = trainer.fit()
    seconds = time.monotonic() - start
    if result.exit_code:  # SIGTERM has stopped it, for example
        print(f"the run is {result.state}; with the same --name it goes on", file=sys.stderr)
        sys.exit(result.exit_code)
    print(result.metrics_dataframe[["epoch", "train_loss", "test_loss", "accuracy"]].to_string(index=False))
    print(f"named {result.metrics['accuracy']:.1%} of the test photographs rightly after {seconds:.0f} s")


if __name__ == "__main__":
    main(parse())
