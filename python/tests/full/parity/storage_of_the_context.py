"""The storage that a worker's context knows: paths, files, names of checkpoints."""

import os

import pyarrow.fs

import ray.train
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

outcome = {}


def train_func(config):
    storage = ray.train.get_context().get_storage()
    path = storage.build_checkpoint_path_from_name("mine")
    storage.storage_filesystem.create_dir(path)
    with storage.storage_filesystem.open_output_stream(os.path.join(path, "file")) as file:
        file.write(b"12")
    base = config["base"]
    return {
        "filesystem": isinstance(storage.storage_filesystem, pyarrow.fs.LocalFileSystem),
        "storage": os.path.relpath(storage.storage_fs_path, base),
        "experiment": os.path.relpath(storage.experiment_fs_path, base),
        "name": storage.experiment_dir_name,
        "checkpoint": os.path.relpath(path, base),
        "text": isinstance(str(storage), str),
    }


result = TorchTrainer(
    train_func,
    train_loop_config={"base": os.path.abspath(".")},
    scaling_config=ScalingConfig(num_workers=1),
    run_config=RunConfig(name="stored", storage_path=os.path.abspath("results")),
).fit()
outcome["returned"] = result.return_value
outcome["written"] = open("results/stored/mine/file").read()
