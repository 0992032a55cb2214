"""A script without Paceline: DistributedDataParallel, written for torchrun. torchrun and `paceline run` start it
unchanged:

    torchrun --standalone --nproc-per-node 2 examples/050_existing_torchrun_program.py
    paceline run --nproc-per-node 2 examples/050_existing_torchrun_program.py
"""

import argparse

import torch
import torch.distributed as dist
import torch.distributed.nn  # noqa: F401  before there is a group: else DDP does, and the group outlives Python (pytorch#190489)
from torch.nn.parallel import DistributedDataParallel


def train(steps: int) -> None:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    slope = torch.tensor([1.0, -2.0, 3.0, -4.0]).view(4, 1)
    torch.manual_seed(1 + rank)  # other data on each rank
    for _ in range(steps):
        x = torch.randn(32, 4)
        loss = torch.nn.functional.mse_loss(model(x), x @ slope)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    weights = " ".join(f"{weight:g}" for weight in model.module.weight.flatten().tolist())
    print(f"rank {rank} of {world_size}: loss {loss.item():g}, weights {weights}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Finds a slope by gradient descent, on every rank that was started.")
    parser.add_argument("--steps", type=int, default=200, help="steps of gradient descent")
    options = parser.parse_args()
    dist.init_process_group("gloo")
    train(options.steps)
    dist.destroy_process_group()
