"""Runs on file systems of pyarrow, and results read through them."""

import os
import tempfile

import pyarrow.fs

import ray.train
from ray.train import Checkpoint, Result, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

outcome = {}


def train_func():
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "text"), "w") as file:
            file.write("stored")
        ray.train.report({"a": 1}, checkpoint=Checkpoint.from_directory(folder))
    with ray.train.get_checkpoint().as_directory() as folder:
        return open(os.path.join(folder, "text")).read()


def described(name, **settings):
    result = TorchTrainer(
        train_func,
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name=name, **settings),
    ).fit()
    with result.filesystem.open_input_stream(os.path.join(result.checkpoint.path, "text")) as file:
        through = file.read().decode()
    with result.checkpoint.filesystem.open_input_stream(os.path.join(result.checkpoint.path, "text")) as file:
        of_checkpoint = file.read().decode()
    again = Result.from_path(result.path, storage_filesystem=result.filesystem)
    return [
        result.return_value,
        result.metrics,
        through,
        of_checkpoint,
        os.path.relpath(result.path, os.path.abspath(".")) if result.path.startswith(os.path.abspath(".")) else result.path,
        os.path.relpath(result.checkpoint.path, result.path).startswith("checkpoint_"),
        again.metrics,
    ]


here = os.path.abspath("tree")
os.makedirs(here)
outcome["uri"] = described("uri", storage_path=f"file://{os.path.abspath('results')}")
local = pyarrow.fs.LocalFileSystem()
subtree = pyarrow.fs.SubTreeFileSystem(here, local)
outcome["subtree"] = described("subtree", storage_path="inside/deep", storage_filesystem=subtree)
outcome["there"] = os.path.isdir("tree/inside/deep/subtree")
