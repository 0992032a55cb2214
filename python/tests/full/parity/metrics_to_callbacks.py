"""Metrics that only Python can hold reach a user's callback, and the report that has no checkpoint."""

import datetime
import enum
import json
import os

import numpy

import ray.train
from ray.train import RunConfig, ScalingConfig, UserCallback
from ray.train.torch import TorchTrainer

outcome = {}


class Color(enum.Enum):
    RED = "red"


class Sees(UserCallback):
    def __init__(self, path):
        self.path = path

    def after_report(self, run_context, metrics, checkpoint):
        (mine,) = metrics
        with open(self.path, "w") as file:
            json.dump(
                {
                    "array": numpy.asarray(mine["array"]).tolist(),
                    "date": str(mine["date"]),
                    "set": sorted(mine["set"]),
                    "number": int(mine["number"]),
                    "large": mine["large"],
                    "tuple": list(mine["tuple"]),
                    "keys": sorted(mine),
                },
                file,
            )


def train_func():
    ray.train.report(
        {
            "array": numpy.arange(3),
            "date": datetime.date(2026, 1, 2),
            "set": {2, 1},
            "number": numpy.int32(4),
            "large": 2**70,
            "tuple": (1, 2),
            "color": Color.RED,
            "bytes": b"ab",
        }
    )


TorchTrainer(
    train_func,
    scaling_config=ScalingConfig(num_workers=1),
    run_config=RunConfig(name="seen", storage_path=os.path.abspath("results"), callbacks=[Sees(os.path.abspath("seen.json"))]),
).fit()
with open("seen.json") as file:
    outcome["seen"] = json.load(file)
