"""Values that metrics may have, with a checkpoint, in the result and in what a callback is given."""

import os
import tempfile

import numpy
import torch

import ray.train
from ray.train import Checkpoint, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

outcome = {}
KINDS = {
    "integer": 3,
    "large": 2**40,
    "float": 0.1,
    "bool": True,
    "text": "a",
    "none": None,
    "list": [1, [2.5, "b"]],
    "nested": {"a": {"b": 1}},
    "infinite": float("inf"),
    "numpy float": numpy.float64(1.5),
}


def train_func():
    with tempfile.TemporaryDirectory() as folder:
        open(os.path.join(folder, "file"), "w").close()
        ray.train.report(KINDS, checkpoint=Checkpoint.from_directory(folder))
    try:
        ray.train.report({"a": {"b": [torch.ones(1)]}})
    except ValueError:
        return "tensors are refused"


result = TorchTrainer(
    train_func,
    scaling_config=ScalingConfig(num_workers=1),
    run_config=RunConfig(name="kinds", storage_path=os.path.abspath("results")),
).fit()
outcome["metrics"] = result.metrics
outcome["columns"] = sorted(result.metrics_dataframe.columns)
outcome["best"] = result.best_checkpoints[0][1] == result.metrics
outcome["tensor"] = result.return_value
