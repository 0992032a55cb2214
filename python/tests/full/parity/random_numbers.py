"""Random numbers of workers: different on every rank without a seed, equal with one."""

import os
import random

import numpy
import torch

import ray.train
import ray.train.torch
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

outcome = {}


def draws():
    shuffled = torch.utils.data.DataLoader(list(range(1000)), batch_size=1000, shuffle=True)
    return [
        torch.rand(1).item(),
        random.random(),
        float(numpy.random.rand()),
        next(iter(shuffled)).tolist()[:20],
        torch.nn.functional.dropout(torch.ones(64)).tolist(),
    ]


def train_func(config):
    if config["seed"] is not None:
        ray.train.torch.enable_reproducibility(seed=config["seed"])
    everybody = [None] * ray.train.get_context().get_world_size()
    torch.distributed.all_gather_object(everybody, draws())
    return everybody


def fit(name, seed):
    return TorchTrainer(
        train_func,
        train_loop_config={"seed": seed},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name=name, storage_path=os.path.abspath("results")),
    ).fit().return_value


first, second = fit("first", None), fit("second", None)
outcome["ranks differ"] = [one != other for one, other in zip(*first)]
outcome["runs differ"] = [one != other for one, other in zip(first[0], second[0])]
seeded = fit("seeded", 5)
outcome["seeded"] = seeded
outcome["ranks equal"] = seeded[0] == seeded[1]
