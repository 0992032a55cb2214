"""DeepSpeed's engine in a train loop, each rank's shard in one checkpoint."""

import importlib
import os
import tempfile

import torch

import ray.train
from ray.train import Checkpoint, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

outcome = {}


def train_func(config):
    import deepspeed

    importlib.import_module("deepspeed.ops").__compatible_ops__ = {}  # compile nothing for CPUs
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2)
    engine, *_ = deepspeed.initialize(
        model=model,
        model_parameters=model.parameters(),
        config={
            "train_micro_batch_size_per_gpu": 4,
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-2, "torch_adam": True}},
            "zero_optimization": {"stage": 1},
        },
    )
    rank = ray.train.get_context().get_world_rank()
    inputs = torch.arange(32.0).reshape(8, 4)[rank * 4 : rank * 4 + 4] / 32
    for step in range(3):
        loss = engine(inputs).square().mean()
        engine.backward(loss)
        engine.step()
        with tempfile.TemporaryDirectory() as folder:
            engine.save_checkpoint(folder)
            torch.distributed.barrier()
            ray.train.report({"loss": loss.item(), "step": step}, checkpoint=Checkpoint.from_directory(folder))
    return torch.distributed.get_backend()


result = TorchTrainer(
    train_func,
    scaling_config=ScalingConfig(num_workers=2),
    run_config=RunConfig(name="deepspeed", storage_path=os.path.abspath("results")),
).fit()
outcome["metrics"] = result.metrics
outcome["returned"] = result.return_value
with result.checkpoint.as_directory() as folder:
    outcome["files"] = sorted(
        os.path.join(os.path.relpath(where, folder), name)
        for where, _, names in os.walk(folder)
        for name in names
        if name.endswith(".pt") or name == "latest"
    )
