"""A file system that pyarrow only wraps: fsspec's, in a folder."""

import os
import tempfile

import fsspec.implementations.dirfs
import fsspec.implementations.local
import pyarrow.fs

import ray.train
from ray.train import Checkpoint, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

outcome = {}


def train_func():
    for step in range(2):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "text"), "w") as file:
                file.write(f"step {step}")
            ray.train.report({"step": step}, checkpoint=Checkpoint.from_directory(folder))


os.makedirs("tree")
wrapped = fsspec.implementations.dirfs.DirFileSystem(
    os.path.abspath("tree"), fs=fsspec.implementations.local.LocalFileSystem(auto_mkdir=True)
)
filesystem = pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(wrapped))
result = TorchTrainer(
    train_func,
    scaling_config=ScalingConfig(num_workers=1),
    run_config=RunConfig(name="wrapped", storage_path="inside", storage_filesystem=filesystem),
).fit()
with result.checkpoint.as_directory() as folder:
    outcome["text"] = open(os.path.join(folder, "text")).read()
outcome["metrics"] = result.metrics
outcome["path"] = result.path
outcome["there"] = os.path.isdir("tree/inside/wrapped")
with result.filesystem.open_input_stream(os.path.join(result.checkpoint.path, "text")) as file:
    outcome["through"] = file.read().decode()
