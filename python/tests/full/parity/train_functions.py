"""Everything that may be a train loop, and everything that may be given to it."""

import enum
import functools
import os
from dataclasses import dataclass

import numpy
import torch

import ray.train
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

outcome = {}
GLOBAL = {"read": 1}


class Color(enum.Enum):
    RED = 1


@dataclass
class Setting:
    name: str
    values: tuple = (1, 2)

    def total(self):
        return sum(self.values)


class Loop:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, config):
        return self.factor * config["value"]


def no_argument():
    return "none"


def one_argument(config):
    return config


def nested():
    hidden = 5

    def inner(config):
        return hidden + config["value"]

    return inner


def objects(config):
    return [
        config["setting"].total(),
        config["color"].name,
        config["array"].tolist(),
        config["tensor"].tolist(),
        config["function"](2),
        config["class"].__name__,
        sorted(config["set"]),
        isinstance(config["model"], torch.nn.Module),
    ]


def fit(loop, config=None):
    name = f"run{len(outcome)}"
    settings = RunConfig(name=name, storage_path=os.path.abspath("results"))
    return TorchTrainer(loop, train_loop_config=config, scaling_config=ScalingConfig(num_workers=1), run_config=settings).fit().return_value


outcome["no config"] = fit(one_argument)
outcome["no argument, config"] = fit(no_argument, {"a": 1})
outcome["callable"] = fit(functools.partial(Loop(3)), {"value": 4})
outcome["closure"] = fit(nested(), {"value": 4})
GLOBAL["read"] = 2
outcome["lambda and global"] = fit(lambda config: [config["value"] + 1, GLOBAL["read"]], {"value": 4})
outcome["objects"] = fit(
    objects,
    {
        "setting": Setting("a"),
        "color": Color.RED,
        "array": numpy.arange(3),
        "tensor": torch.ones(2),
        "function": lambda value: value * 2,
        "class": Setting,
        "set": {3, 1},
        "model": torch.nn.Linear(1, 1),
    },
)
