"""Trains the same network three times: in float32, in mixed precision by hand, and in mixed precision by three calls.

    python examples/python/mixed_precision.py                        # less than a minute on two cores
    python examples/python/mixed_precision.py --ways autocast --use-gpu

Lower precision is used for matrix multiplications: bfloat16 on CPUs, and float16 on GPUs, where the loss is scaled so
that small gradients do not become zero. Weights and optimizer stay in float32. It is faster on hardware with 16-bit
units (GPUs; CPUs with AMX or AVX512-BF16: `lscpu | grep -o 'amx_bf16\\|avx512_bf16'`). It is slower on other hardware,
and with small layers, where converting costs more than it saves. The table at the end shows what holds on this machine.
"""

import argparse
import contextlib
import sys
import time

import torch
from torch.utils.data import DataLoader, TensorDataset

from paceline.train import RunConfig, ScalingConfig, get_context, report
from paceline.train.torch import (
    TorchTrainer,
    accelerate,
    backward,
    get_device,
    prepare_data_loader,
    prepare_model,
    prepare_optimizer,
)

GLOBAL_BATCH_SIZE = 256


def rows():
    """Points around ten centres in 64 dimensions, with the centre's number."""
    numbers = torch.Generator().manual_seed(1)
    centres = torch.randn(10, 64, generator=numbers)
    labels = torch.randint(10, (4096,), generator=numbers)
    return TensorDataset(centres[labels] + 2 * torch.randn(4096, 64, generator=numbers), labels)


def network(width):
    return torch.nn.Sequential(torch.nn.Linear(64, width), torch.nn.ReLU(), torch.nn.Linear(width, width), torch.nn.ReLU(),
                               torch.nn.Linear(width, 10))  # fmt: skip


def in_float32(config):
    return steps_of(config, contextlib.nullcontext(), lambda loss, optimizer: (loss.backward(), optimizer.step()))


def by_hand(config):
    """What PyTorch has for it: autocast around the forward, and a scaler for float16."""
    on_gpu = get_device().type == "cuda"
    scaler = torch.amp.GradScaler(enabled=on_gpu)

    def step(loss, optimizer):
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    return steps_of(config, torch.autocast(get_device().type, torch.float16 if on_gpu else torch.bfloat16), step)


def by_three_calls(config):
    """The same by accelerate(), prepare_optimizer() and backward()."""
    accelerate(amp=True)
    return steps_of(
        config, contextlib.nullcontext(), lambda loss, optimizer: (backward(loss), optimizer.step()), prepare_optimizer
    )


WAYS = {"float32": in_float32, "autocast": by_hand, "three-calls": by_three_calls}


def train_loop(config):
    return WAYS[config["way"]](config)


def steps_of(config, precision, step, prepare=lambda optimizer: optimizer):
    loader = prepare_data_loader(DataLoader(rows(), GLOBAL_BATCH_SIZE // get_context().get_world_size(), shuffle=True))
    torch.manual_seed(0)
    model = prepare_model(network(config["width"]))
    optimizer = prepare(torch.optim.Adam(model.parameters(), lr=1e-3))
    for epoch in range(config["epochs"]):
        loader.sampler.set_epoch(epoch)
        begin = time.perf_counter()
        loss_sum = 0.0
        for x, labels in loader:
            with precision:
                output = model(x)
                loss = torch.nn.functional.cross_entropy(output, labels)
            optimizer.zero_grad()
            step(loss, optimizer)
            loss_sum += loss.item() / len(loader)
        rows_per_second = len(loader.dataset) / (time.perf_counter() - begin)
        report({"epoch": epoch, "loss": loss_sum, "rows_per_second": rows_per_second}, reduce="mean")
    return str(output.dtype)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description="Trains a network in float32 and in mixed precision, and compares.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "--ways", nargs="+", default=list(WAYS), choices=WAYS, metavar="WAY", help="float32, autocast, three-calls"
    )
    parser.add_argument("--num-workers", type=int, default=2, choices=(1, 2, 4, 8), help="worker processes; they share a batch")
    parser.add_argument("--use-gpu", action="store_true", help="one GPU for each worker")
    parser.add_argument("--epochs", type=int, default=4, help="passes over the rows")
    parser.add_argument("--width", type=int, default=256, help="width of the network's layers")
    parser.add_argument("--storage-path", default="results", help="folder of the runs")
    options = parser.parse_args()
    if options.epochs < 1 or options.width < 1:
        parser.error("arguments --epochs and --width: allowed: 1 or more")
    if options.use_gpu and (gpus := torch.cuda.device_count()) < options.num_workers:
        parser.error(f"argument --use-gpu: GPUs needed: {options.num_workers}, one for each worker; found: {gpus}")

    table = []
    for way in options.ways:
        result = TorchTrainer(
            train_loop,
            train_loop_config={"way": way, "epochs": options.epochs, "width": options.width},
            scaling_config=ScalingConfig(num_workers=options.num_workers, use_gpu=options.use_gpu),
            run_config=RunConfig(storage_path=options.storage_path),
        ).fit()
        if result.exit_code:  # SIGTERM has stopped it, for example
            sys.exit(result.exit_code)
        table.append((way, result.return_value, result.metrics["loss"], result.metrics["rows_per_second"]))
    print("\nway          outputs           last loss   rows/second")
    for way, outputs, loss, speed in table:
        print(f"{way:12} {outputs:17} {loss:9.4f} {speed:13.0f}")
