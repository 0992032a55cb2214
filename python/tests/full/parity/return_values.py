"""What a loop may return: rank zero's value, of whatever can be pickled."""

import datetime
import os
from dataclasses import dataclass

import numpy

import ray.train
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

outcome = {}


@dataclass
class Point:
    x: int
    y: int


def train_func():
    rank = ray.train.get_context().get_world_rank()
    return {
        "rank": rank,
        "array": numpy.arange(4).reshape(2, 2),
        "object": Point(1, rank),
        "date": datetime.date(2026, 1, 2),
        "large": "x" * 3_000_000,
        "tuple": (1, [2, (3,)]),
        "function": lambda value: value + 1,
    }


value = TorchTrainer(
    train_func,
    scaling_config=ScalingConfig(num_workers=2),
    run_config=RunConfig(name="returned", storage_path=os.path.abspath("results")),
).fit().return_value
outcome["rank"] = value["rank"]
outcome["array"] = value["array"].tolist()
outcome["object"] = [isinstance(value["object"], Point), value["object"].x, value["object"].y]
outcome["date"] = str(value["date"])
outcome["large"] = len(value["large"])
outcome["tuple"] = value["tuple"] == (1, [2, (3,)])
outcome["function"] = value["function"](4)
