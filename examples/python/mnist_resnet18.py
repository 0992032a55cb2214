"""`make quickstart-python`: trains ResNet-18 on the MNIST digits, tests it on digits that it has not seen, and draws a
picture of nine of them with its predictions.

    python examples/python/mnist_resnet18.py                      # two workers, about two minutes on two cores
    python examples/python/mnist_resnet18.py --num-workers 4
    python examples/python/mnist_resnet18.py --name digits        # interrupt it, run it again: it goes on

The train loop looks like one of your own would. The rest of the file is its command line and its summary.
"""

import argparse
import json
import os
import sys
import tempfile
import time

import torch
from torch.utils.data import DataLoader

from paceline.train import (
    Checkpoint,
    ConfigError,
    Result,
    RunConfig,
    ScalingConfig,
    TrainingFailedError,
    get_checkpoint,
    get_context,
    report,
)
from paceline.train.torch import TorchTrainer, prepare_data_loader, prepare_model
from vision.evaluate import evaluate
from vision.mnist import Mnist
from vision.resnet18 import ResNet18

NUM_CLASSES = 10
LEARNING_RATE = 1e-3
GLOBAL_BATCH_SIZE = 512  # every step averages 45 MB of gradients: large batches have fewer steps


def train_loop(config):
    context = get_context()
    digits = Mnist(config["data"], train=True, limit=config["train_digits"])
    test_digits = Mnist(config["data"], train=False)
    batch_size = GLOBAL_BATCH_SIZE // context.get_world_size()
    loader = prepare_data_loader(DataLoader(digits, batch_size, shuffle=True, drop_last=True))

    torch.manual_seed(0)
    model = prepare_model(ResNet18(NUM_CLASSES))
    optimizer = torch.optim.Adam(model.parameters(), LEARNING_RATE, fused=True)
    steps = config["num_epochs"] * len(loader)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0, 1 - step / steps))
    start = 0
    if checkpoint := get_checkpoint():
        with checkpoint.as_directory() as folder:
            state = torch.load(os.path.join(folder, "state.pt"), weights_only=True)
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        scheduler.load_state_dict(state["scheduler"])
        start = state["epoch"] + 1

    for epoch in range(start, config["num_epochs"]):
        loader.sampler.set_epoch(epoch)
        losses = []
        for step, (images, labels) in enumerate(loader, 1):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            losses.append(loss.item())
            if step % 10 == 0 and context.get_world_rank() == 0:
                print(f"epoch {epoch}: step {step} of {len(loader)}, loss {losses[-1]:.3f}")
        test_loss, accuracy = evaluate(model, test_digits, batch_size=250)
        metrics = {"epoch": epoch, "loss": sum(losses) / len(losses), "test_loss": test_loss, "accuracy": accuracy}
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = None
            if context.get_world_rank() == 0:
                state = {
                    "model": model.module.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "scheduler": scheduler.state_dict(),
                    "epoch": epoch,
                }
                torch.save(state, os.path.join(folder, "state.pt"))
                checkpoint = Checkpoint.from_directory(folder)
            report(metrics, checkpoint, reduce="mean")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Trains ResNet-18 on the MNIST digits.", formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--num-workers", type=int, help="worker processes; by default 2, with --use-gpu one for each GPU")
    parser.add_argument("--use-gpu", action="store_true", help="one GPU for each worker")
    parser.add_argument("--full", action="store_true", help="all 60,000 digits, five times")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    parser.add_argument("--name", help="name of the run; the name of an unfinished run continues it")
    parser.add_argument("--data", default="data", help="folder of the digits, which are fetched if missing")
    parser.add_argument("--storage-path", default="results", help="folder of the runs")
    # Of 60,000, twice: 50,176 images take less than two minutes on two slow cores.
    parser.add_argument("--train-digits", type=int, default=25_088, help="digits to train on")
    parser.add_argument("--num-epochs", type=int, default=2, help="passes over the digits")
    options = parser.parse_args()
    if options.full:
        options.train_digits, options.num_epochs = 60_000, 5
    if options.num_workers is None:
        options.num_workers = max(1, torch.cuda.device_count()) if options.use_gpu else 2
    if options.num_workers < 1:
        parser.error(f"argument --num-workers: {options.num_workers}; allowed: 1 or more")
    if not GLOBAL_BATCH_SIZE <= options.train_digits <= 60_000:
        parser.error(f"argument --train-digits: {options.train_digits}; allowed: {GLOBAL_BATCH_SIZE} to 60000")
    if options.num_epochs < 1:
        parser.error(f"argument --num-epochs: {options.num_epochs}; allowed: 1 or more")
    if options.use_gpu and (gpus := torch.cuda.device_count()) < options.num_workers:
        parser.error(f"argument --use-gpu: GPUs needed: {options.num_workers}, one for each worker; found: {gpus}")
    return options


def draw(result: Result, digits: Mnist) -> str:
    """Draws nine test digits with what the trained model reads in them. Returns the picture's path."""
    from matplotlib.figure import Figure

    model = ResNet18(NUM_CLASSES).eval()
    with result.checkpoint.as_directory() as folder:
        state = torch.load(os.path.join(folder, "state.pt"), map_location="cpu", weights_only=True)
    model.load_state_dict(state["model"])
    with torch.no_grad():
        read = model(torch.stack([digits[i][0] for i in range(9)])).argmax(1)
    figure = Figure(figsize=(7, 7.6), layout="constrained")
    for axes, image, label, predicted in zip(figure.subplots(3, 3).flat, digits.pixels, digits.labels, read):
        axes.imshow(image, cmap="gray_r")
        axes.set_title(f"label {label}, predicted {predicted}", color="green" if label == predicted else "red")
        axes.axis("off")
    path = os.path.join(result.path, "predictions.png")
    figure.savefig(path)
    return path


def main(options: argparse.Namespace) -> int:
    """Trains, and says what has come of it. Returns the exit code."""
    test_digits = Mnist(options.data, train=False)  # fetched while the terminal is free to say so
    trainer = TorchTrainer(
        train_loop,
        train_loop_config={"data": options.data, "train_digits": options.train_digits, "num_epochs": options.num_epochs},
        scaling_config=ScalingConfig(num_workers=options.num_workers, use_gpu=options.use_gpu),
        run_config=RunConfig(name=options.name, storage_path=options.storage_path),
    )
    start = time.monotonic()
    try:
        result = trainer.fit()
    except TrainingFailedError as error:
        print(error, file=sys.stderr)
        result = error.result
    seconds = time.monotonic() - start

    # Members that the run did not reach are null; paths are relative to where the program runs.
    summary = {"state": result.state, "workers": options.num_workers, "accuracy": None, "train_seconds": seconds}
    summary |= {"checkpoint": None, "picture": None}
    if result.checkpoint:
        summary["checkpoint"] = os.path.relpath(result.checkpoint.path)
    if result.state == "finished":
        summary |= {"accuracy": result.metrics["accuracy"], "picture": os.path.relpath(draw(result, test_digits))}
        print(result.metrics_dataframe[["epoch", "loss", "test_loss", "accuracy"]].to_string(index=False))
        print(f"read {summary['accuracy']:.2%} of {len(test_digits):,} unseen digits correctly after {seconds:.0f} s")
        print(f"checkpoint {summary['checkpoint']}")
        print(f"picture    {summary['picture']}")
    if options.json:
        print(json.dumps(summary))
    return result.exit_code


if __name__ == "__main__":
    try:
        sys.exit(main(parse()))
    except ConfigError as error:  # such as a name that cannot be a folder's
        sys.exit(f"mnist_resnet18.py: {error}")
    except KeyboardInterrupt as error:
        print(f"mnist_resnet18.py: {error}", file=sys.stderr)
        sys.exit(130)
