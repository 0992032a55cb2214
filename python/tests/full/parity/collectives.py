"""Barrier and broadcast of Ray Train, and torch's own collectives, in one loop."""

import os

import torch
import torch.distributed as dist

import ray.train
import ray.train.collective
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer

outcome = {}


def train_func(config):
    rank = ray.train.get_context().get_world_rank()
    world = ray.train.get_context().get_world_size()
    ray.train.collective.barrier()
    sent = [ray.train.collective.broadcast_from_rank_zero({"round": turn, "of": rank}) for turn in range(3)]
    nothing = ray.train.collective.broadcast_from_rank_zero(None if rank == 0 else "lost")
    number = torch.tensor([rank + 1.0])
    dist.all_reduce(number)
    gathered = [None] * world
    dist.all_gather_object(gathered, {"rank": rank})
    objects = [f"from {rank}"]
    dist.broadcast_object_list(objects, src=1)
    scattered = torch.empty(2)
    dist.scatter(scattered, [torch.full((2,), float(to)) for to in range(world)] if rank == 0 else None, src=0)
    group = dist.new_group([0, 1])
    part = torch.tensor([float(rank)])
    if rank < 2:
        dist.all_reduce(part, op=dist.ReduceOp.MAX, group=group)
    received = torch.zeros(1)
    if rank == 0:
        dist.send(torch.tensor([5.0]), dst=2)
    elif rank == 2:
        dist.recv(received, src=0)
    arrived = [None] * world
    dist.all_gather_object(arrived, [scattered.tolist(), part.item(), received.item(), nothing])
    return {
        "sent": sent,
        "sum": number.item(),
        "gathered": gathered,
        "objects": objects,
        "arrived": arrived,
        "backend": dist.get_backend(),
        "initialized": dist.is_initialized(),
        "ranks": [dist.get_rank(), dist.get_world_size()],
    }


result = TorchTrainer(
    train_func,
    torch_config=TorchConfig(backend="gloo", timeout_s=60),
    scaling_config=ScalingConfig(num_workers=3),
    run_config=RunConfig(name="collectives", storage_path=os.path.abspath("results")),
).fit()
outcome["returned"] = result.return_value
