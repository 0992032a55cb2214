"""DistributedDataParallel by hand: everything that a script has to do itself without a trainer. ddp_with_trainer.py is
the same program with TorchTrainer; compare the two side by side.

    paceline run --nproc-per-node 2 examples/python/vanilla_ddp.py --epochs 10
    torchrun --standalone --nproc-per-node 2 examples/python/vanilla_ddp.py --epochs 10

launch_multinode_ddp.sh starts it on several machines.

Two spirals wind around each other; a small network learns which of them a point belongs to. With --snapshot FILE the
script continues where it was, so that with `paceline run --max-restarts 3 …` it survives workers that die.
"""

import argparse
import math
import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.nn  # noqa: F401  before there is a group: else DDP does, and the group outlives Python
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


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


def train(options):
    rank, world_size = dist.get_rank(), dist.get_world_size()
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)

    # 2. Each rank gets its share of the data: a sampler, whose epoch must be set, or every epoch is shuffled the same.
    sampler = DistributedSampler(spirals(4096, seed=1), world_size, rank, shuffle=True)
    loader = DataLoader(sampler.dataset, batch_size=64 // world_size, sampler=sampler)

    # 3. Each rank has the model; its gradients are averaged in backward().
    torch.manual_seed(0)
    model = DistributedDataParallel(network().to(device), device_ids=[device] if device.type == "cuda" else None)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    # 4. Checkpoints are the script's own business: rank 0 writes, all read.
    start = 1
    if options.snapshot and os.path.exists(options.snapshot):
        state = torch.load(options.snapshot, map_location=device, weights_only=True)
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        start = state["epoch"] + 1

    for epoch in range(start, options.epochs + 1):
        sampler.set_epoch(epoch)
        loss_sum = torch.zeros(1, device=device)
        for points, labels in loader:
            points, labels = points.to(device), labels.to(device)
            loss = torch.nn.functional.cross_entropy(model(points), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss_sum += loss.detach() / len(loader)
        # 5. A metric of all ranks is a collective of its own.
        dist.all_reduce(loss_sum)
        if rank == 0:
            print(f"epoch {epoch}: loss {loss_sum.item() / world_size:.4f}", flush=True)
            if options.snapshot:
                state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
                torch.save(state, options.snapshot + ".new")
                os.replace(options.snapshot + ".new", options.snapshot)  # never half a file

    if rank == 0:
        points, labels = spirals(1000, seed=2).tensors
        with torch.no_grad():
            right = (model.module(points.to(device)).argmax(1).cpu() == labels).float().mean().item()
        print(f"{right:.1%} of 1,000 new points are on the spiral that the network says", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Learns two spirals, on every rank that a launcher has started.")
    parser.add_argument("--epochs", type=int, default=10, help="passes over the points (default: 10)")
    parser.add_argument("--snapshot", help="file for the latest state; training continues from it if it exists")
    arguments = parser.parse_args()
    if arguments.epochs < 1:
        parser.error(f"argument --epochs: {arguments.epochs}; allowed: 1 or more")
    if "RANK" not in os.environ:
        sys.exit(f"a launcher starts this program: paceline run --nproc-per-node 2 {sys.argv[0]}")
    # 1. The launcher has started this script once for each rank. Ranks meet in a process group, and leave it when the
    # model is gone: a group that goes with the model may wait for ever for its threads.
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    train(arguments)
    dist.destroy_process_group()
