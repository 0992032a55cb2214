"""torch.distributed.checkpoint and FSDP2's fully_shard in a loop, with the shards of all ranks in one checkpoint."""

import os
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import ray.train
from ray.train import Checkpoint, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

outcome = {}


def train_func(config):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 2))
    mesh = init_device_mesh("cpu", (ray.train.get_context().get_world_size(),))
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    start = 0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        model_state, optimizer_state = get_state_dict(model, optimizer)
        with checkpoint.as_directory() as folder:
            dcp.load({"model": model_state, "optimizer": optimizer_state}, checkpoint_id=folder)
        set_state_dict(model, optimizer, model_state_dict=model_state, optim_state_dict=optimizer_state)
        start = 2
    losses = []
    for step in range(start, config["steps"]):
        loss = model(torch.ones(2, 4) * (step + 1)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        model_state, optimizer_state = get_state_dict(model, optimizer)
        with tempfile.TemporaryDirectory() as folder:
            dcp.save({"model": model_state, "optimizer": optimizer_state}, checkpoint_id=folder)
            dist.barrier()
            ray.train.report({"loss": losses[-1], "step": step}, checkpoint=Checkpoint.from_directory(folder))
    return losses


def fit(steps):
    return TorchTrainer(
        train_func,
        train_loop_config={"steps": steps},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="sharded", storage_path=os.path.abspath("results")),
    ).fit()


first, second = fit(2), fit(4)
outcome["losses"] = [first.return_value, second.return_value]
with second.checkpoint.as_directory() as folder:
    outcome["files"] = sorted(name for name in os.listdir(folder) if name.endswith(".distcp") or name == ".metadata")
outcome["metrics"] = second.metrics
