"""Trains a VisionTransformer on the photographs of CIFAR-10 and tests it after each epoch, in one process or in many.

    python examples/python/cifar10_vit.py --quick --num-workers 0   # in this process: no other is started
    python examples/python/cifar10_vit.py --quick                   # the same with two workers
    python examples/python/cifar10_vit.py --use-gpu --num-workers 4 --epochs 30

The train loop is the same in all cases. This program shows two things beyond mnist_resnet18.py: a batch that is trained
in parts, because its forward would not fit into memory; and the same training with one worker and with many. The global
batch is the same for any number of workers, the samplers of all ranks together give the photographs that one would
give, and the weights start from the same seed. So the curves differ only by the order in which numbers are added.
"""

import argparse
import contextlib
import os
import sys
import tempfile
import time

import torch
from torch.utils.data import DataLoader, DistributedSampler

from paceline.train import Checkpoint, RunConfig, ScalingConfig, get_checkpoint, get_context, report
from paceline.train.torch import TorchTrainer, prepare_data_loader, prepare_model
from vision.cifar10 import Cifar10
from vision.evaluate import evaluate
from vision.vision_transformer import VisionTransformer

LEARNING_RATE = 1e-3
WEIGHT_DECAY = 1e-2


def backward_in_parts(model, images, labels, part_size):
    """Adds the gradients of a batch's mean loss, computed in parts of ``part_size`` photographs. Returns that loss."""
    batch_loss = 0
    parts = list(zip(images.split(part_size), labels.split(part_size)))
    for number, (image_part, label_part) in enumerate(parts, 1):
        # The workers average their gradients once a batch: in the backward of the last part.
        waits = number < len(parts) and hasattr(model, "no_sync")
        with model.no_sync() if waits else contextlib.nullcontext():
            loss = torch.nn.functional.cross_entropy(model(image_part), label_part, reduction="sum") / len(labels)
            loss.backward()
        batch_loss += loss.item()
    return batch_loss


def train_loop(config):
    context = get_context()
    rank, world_size = context.get_world_rank(), context.get_world_size()
    photographs = Cifar10(config["data"], train=True, limit=config["train_images"])
    test_photographs = Cifar10(config["data"], train=False, limit=config["test_images"])
    # prepare_data_loader() would bring a sampler of its own; this one gives one worker the same batches as many.
    sampler = DistributedSampler(photographs, num_replicas=world_size, rank=rank, shuffle=True)
    loader = prepare_data_loader(DataLoader(photographs, config["batch_size"] // world_size, sampler=sampler))

    torch.manual_seed(0)
    model = prepare_model(VisionTransformer(**config["model"]))
    optimizer = torch.optim.AdamW(model.parameters(), LEARNING_RATE, weight_decay=WEIGHT_DECAY, fused=True)
    start = 0
    if checkpoint := get_checkpoint():
        with checkpoint.as_directory() as folder:
            state = torch.load(os.path.join(folder, "state.pt"), weights_only=True)
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        start = state["epoch"] + 1

    for epoch in range(start, config["epochs"]):
        loader.sampler.set_epoch(epoch)
        losses = []
        for step, (images, labels) in enumerate(loader, 1):
            optimizer.zero_grad()
            losses.append(backward_in_parts(model, images, labels, config["part_size"]))
            optimizer.step()
            if step % 5 == 0 and rank == 0:
                print(f"epoch {epoch}: step {step} of {len(loader)}, loss {losses[-1]:.3f}")
        test_loss, accuracy = evaluate(model, test_photographs, config["part_size"])
        metrics = {"epoch": epoch, "train_loss": sum(losses) / len(losses), "test_loss": test_loss, "accuracy": accuracy}
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = None
            if rank == 0:
                state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
                torch.save(state, os.path.join(folder, "state.pt"))
                checkpoint = Checkpoint.from_directory(folder)
            report(metrics, checkpoint, reduce="mean")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Trains a VisionTransformer on the photographs of CIFAR-10.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--num-workers", type=int, default=2, help="worker processes; 0: train in this process")
    parser.add_argument("--epochs", type=int, default=1, help="passes over the photographs")
    parser.add_argument("--quick", action="store_true", help="2,048 photographs and a small model: half a minute")
    parser.add_argument("--use-gpu", action="store_true", help="one GPU for each worker")
    parser.add_argument("--batch-size", type=int, default=512, help="photographs in each step, of all workers together")
    parser.add_argument(
        "--part-size", type=int, default=64, help="photographs that a worker processes at once; more take more memory"
    )
    parser.add_argument("--train-images", type=int, default=50_000, help="photographs to train on")
    parser.add_argument("--test-images", type=int, default=10_000, help="photographs to test with")
    parser.add_argument("--name", help="name of the run; the name of an unfinished run continues it")
    parser.add_argument("--data", default="data", help="folder of the photographs, which are fetched if missing")
    parser.add_argument("--storage-path", default="results", help="folder of the runs")
    options = parser.parse_args()
    for name in ("epochs", "batch_size", "part_size", "train_images", "test_images"):
        if getattr(options, name) < 1:
            parser.error(f"argument --{name.replace('_', '-')}: {getattr(options, name)}; allowed: 1 or more")
    if options.num_workers < 0:
        parser.error(f"argument --num-workers: {options.num_workers}; allowed: 0 or more")
    if options.batch_size % (options.num_workers or 1):
        parser.error(
            f"argument --num-workers: a batch of {options.batch_size} photographs cannot be shared out to "
            f"{options.num_workers} workers equally"
        )
    needed = max(1, options.num_workers)
    if options.use_gpu and (gpus := torch.cuda.device_count()) < needed:
        parser.error(f"argument --use-gpu: GPUs needed: {needed}, one for each worker; found: {gpus}")
    return options


def main(options: argparse.Namespace) -> None:
    model = {}
    if options.quick:
        model = {"num_layers": 4, "num_heads": 4, "hidden_dim": 128, "mlp_dim": 256}
        options.train_images, options.test_images = min(options.train_images, 2_048), min(options.test_images, 1_000)
        options.batch_size = min(options.batch_size, 128)
    Cifar10(options.data, train=True, limit=1)  # fetched while the terminal is free to say so
    trainer = TorchTrainer(
        train_loop,
        train_loop_config={
            "model": model,
            "epochs": options.epochs,
            "batch_size": options.batch_size,
            "part_size": options.part_size,
            "train_images": options.train_images,
            "test_images": options.test_images,
            "data": options.data,
        },
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
