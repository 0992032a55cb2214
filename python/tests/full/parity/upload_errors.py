"""Reports that cannot be right: folders that are not there, wrong ways, errors of one's own uploading function."""

import os
import tempfile

import ray.train
from ray.train import Checkpoint, CheckpointUploadMode, RunConfig, ScalingConfig, TrainingFailedError
from ray.train.torch import TorchTrainer

outcome = {}


def checkpoint():
    folder = tempfile.mkdtemp()
    open(os.path.join(folder, "file"), "w").close()
    return Checkpoint(folder)


def raises(checkpoint, name):
    raise OSError("the disk is full")


def returns_text(checkpoint, name):
    return "text"


def train_func(config):
    kind = config["kind"]
    if kind == "upload fn returns text":
        ray.train.report({"a": 1}, checkpoint(), checkpoint_upload_fn=returns_text)
    elif kind == "absent folder":
        ray.train.report({"a": 1}, Checkpoint("/nowhere/at/all"))
    elif kind == "raises in the background":
        mode = CheckpointUploadMode.ASYNC
        ray.train.report({"a": 1}, checkpoint(), checkpoint_upload_mode=mode, checkpoint_upload_fn=raises)


for kind in (
    "upload fn returns text",
    "absent folder",
    "raises in the background",
):
    try:
        TorchTrainer(
            train_func,
            train_loop_config={"kind": kind},
            scaling_config=ScalingConfig(num_workers=1),
            run_config=RunConfig(name=kind, storage_path=os.path.abspath("results")),
        ).fit()
        outcome[kind] = "accepted"
    except TrainingFailedError as error:
        outcome[kind] = [type(error).__name__, sorted(error.worker_failures)]
