"""Data parallel training as it is written for torchrun: prints the last loss and the weights' sum on rank 0.

With --listening every rank prints on which addresses it listens for TCP connections, as /proc/net writes them.
"""

import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.nn  # noqa: F401  before there is a group: else DDP does, and the group outlives Python
from torch.nn.parallel import DistributedDataParallel


def listening():
    sockets = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            sockets.add(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:
            pass  # the folder's own
    for table in ("tcp", "tcp6"):
        with open(f"/proc/self/net/{table}") as lines:
            for fields in map(str.split, list(lines)[1:]):
                if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                    yield fields[1].split(":")[0]


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    model = DistributedDataParallel(network)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(rank + 1)
    for _ in range(20):
        features = torch.randn(4, 8, generator=generator)
        loss = ((model(features) - features.sum(1, keepdim=True)) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        dist.all_reduce(loss.detach())
    ranks = [None] * dist.get_world_size()
    dist.all_gather_object(ranks, rank)
    assert ranks == list(range(dist.get_world_size())), ranks
    dist.new_group([0])
    if "--listening" in sys.argv:
        print("listening", *listening(), flush=True)
    if rank == 0:
        print("result", repr(loss.item()), repr(sum(weights.double().sum().item() for weights in model.parameters())))
    # Were the reducer the last to hold the group, it would end it with the GIL held, while the group's thread, which is
    # joined there, may still need the GIL to release a tensor: seen once, with torch 2.13 and torchrun.
    del model
    if "--leave" not in sys.argv:  # a program may also just end
        dist.destroy_process_group()


main()
