"""Several runs of one driver: one after another with other sizes, and one that failed in between."""

import os

import ray.train
from ray.train import RunConfig, ScalingConfig, TrainingFailedError
from ray.train.torch import TorchTrainer

outcome = {}


def train_func(config):
    import torch

    total = torch.tensor([config["value"] * (ray.train.get_context().get_world_rank() + 1.0)])
    torch.distributed.all_reduce(total)
    if config["value"] == 0:
        raise RuntimeError("zero")
    return total.item()


outcome["values"] = []
for index, (workers, value) in enumerate([(1, 2), (2, 0), (4, 1)]):
    trainer = TorchTrainer(
        train_func,
        train_loop_config={"value": value},
        scaling_config=ScalingConfig(num_workers=workers),
        run_config=RunConfig(name=f"run {index}", storage_path=os.path.abspath("results")),
    )
    try:
        outcome["values"].append(trainer.fit().return_value)
    except TrainingFailedError:
        outcome["values"].append("failed")
