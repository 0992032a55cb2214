"""What each worker is told of itself, by the context and by torch's variables."""

import os

import torch

import ray.train
import ray.train.torch
from ray.train import RunConfig, ScalingConfig
from ray.train.context import get_context
from ray.train.torch import TorchTrainer

outcome = {}


def deprecated(ask):
    try:
        ask()
    except BaseException as error:
        return next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins")
    return "answers"


def train_func(config):
    context = ray.train.get_context()
    mine = [
        context.get_world_size(),
        context.get_world_rank(),
        context.get_local_rank(),
        context.get_local_world_size(),
        context.get_node_rank(),
        context.get_experiment_name(),
    ]
    names = ("WORLD_SIZE", "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK")
    variables = [os.environ[name] for name in names]
    everybody = [None] * context.get_world_size()
    torch.distributed.all_gather_object(everybody, [mine, variables])
    return {
        "everybody": everybody,
        "master": ["MASTER_ADDR" in os.environ, os.environ.get("MASTER_PORT", "").isdigit()],
        "same": get_context().get_world_rank() == context.get_world_rank(),
        "class": isinstance(context, ray.train.TrainContext),
        "device": [str(ray.train.torch.get_device()), [str(device) for device in ray.train.torch.get_devices()]],
        "threads": torch.get_num_threads(),
        "accelerate": os.environ.get("ACCELERATE_TORCH_DEVICE"),
        "old": [
            deprecated(context.get_metadata),
            deprecated(context.get_trial_name),
            deprecated(context.get_trial_id),
            deprecated(context.get_trial_resources),
            deprecated(context.get_trial_dir),
        ],
    }


result = TorchTrainer(
    train_func,
    train_loop_config={},
    scaling_config=ScalingConfig(num_workers=3, resources_per_worker={"CPU": 1}),
    run_config=RunConfig(name="who am I", storage_path=os.path.abspath("results")),
).fit()
outcome["returned"] = result.return_value
for name in ("report", "get_checkpoint", "get_dataset_shard", "get_all_reported_checkpoints"):
    function = getattr(ray.train, name)
    outcome[f"{name} outside"] = deprecated(lambda: function({}) if name == "report" else function())
