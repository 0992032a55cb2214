"""num_workers=0: the loop runs in the calling process."""

import os
import tempfile

import torch

import ray.train
import ray.train.collective
import ray.train.torch
from ray.train import Checkpoint, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

outcome = {}
calls = []


def train_func(config):
    calls.append(config["value"])
    context = ray.train.get_context()
    seen = [
        context.get_world_size(),
        context.get_world_rank(),
        context.get_local_rank(),
        context.get_local_world_size(),
        context.get_node_rank(),
    ]
    calls.append(context.get_experiment_name())
    model = ray.train.torch.prepare_model(torch.nn.Linear(1, 1))
    ray.train.collective.barrier()
    received = ray.train.collective.broadcast_from_rank_zero({"a": 1})
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "file"), "w") as file:
            file.write("x")
        ray.train.report({"loss": 1.0}, checkpoint=Checkpoint.from_directory(folder))
        ray.train.report({"loss": 0.5})
    return {"seen": seen, "received": received, "device": str(ray.train.torch.get_device()), "weights": tuple(model.weight.shape)
            if hasattr(model, "weight") else tuple(model.module.weight.shape)}


trainer = TorchTrainer(
    train_func,
    train_loop_config={"value": 5},
    scaling_config=ScalingConfig(num_workers=0),
    run_config=RunConfig(name="local", storage_path=os.path.abspath("results")),
)
result = trainer.fit()
outcome["calls"] = calls
outcome["returned"] = {**result.return_value, "weights": list(result.return_value["weights"])}
outcome["error"] = result.error
outcome["metrics"] = result.metrics


def fails():
    raise KeyError("in this process")


try:
    TorchTrainer(fails, scaling_config=ScalingConfig(num_workers=0), run_config=RunConfig(name="fails")).fit()
except Exception as error:
    outcome["failure"] = "in this process" in str(error)
