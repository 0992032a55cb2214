"""Every way to upload: in the call, in the background, not at all, and by a function of one's own."""

import os
import shutil
import tempfile

import ray.train
from ray.train import Checkpoint, CheckpointUploadMode, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

outcome = {}


def filled(text):
    folder = tempfile.mkdtemp()
    with open(os.path.join(folder, "value.txt"), "w") as file:
        file.write(text)
    return folder


def train_func(config):
    left = {}
    folder = filled("sync")
    ray.train.report({"way": "sync"}, checkpoint=Checkpoint.from_directory(folder))
    left["sync"] = os.path.exists(folder)
    folder = filled("deleted")
    ray.train.report({"way": "deleted"}, Checkpoint(folder), delete_local_checkpoint_after_upload=True)
    left["deleted"] = os.path.exists(folder)
    folder = filled("async")
    ray.train.report(
        {"way": "async"}, Checkpoint(folder), checkpoint_upload_mode=CheckpointUploadMode.ASYNC
    )
    kept = filled("async kept")
    ray.train.report(
        {"way": "async kept"},
        Checkpoint(kept),
        checkpoint_upload_mode=CheckpointUploadMode.ASYNC,
        delete_local_checkpoint_after_upload=False,
    )
    own = os.path.join(config["run"], "mine")
    os.makedirs(own)
    shutil.copy(os.path.join(kept, "value.txt"), os.path.join(own, "value.txt"))
    ray.train.report(
        {"way": "none"},
        Checkpoint(own),
        checkpoint_dir_name="mine",
        checkpoint_upload_mode=CheckpointUploadMode.NO_UPLOAD,
    )
    left["async"], left["async kept"] = folder, kept  # brought away when the run has ended

    def upload(checkpoint, name):
        target = os.path.join(config["run"], name)
        shutil.copytree(checkpoint.path, target)
        with open(os.path.join(target, "value.txt"), "a") as file:
            file.write(", brought by hand")
        return Checkpoint(target)

    folder = filled("function")
    ray.train.report(
        {"way": "function"}, Checkpoint(folder), checkpoint_dir_name="by_hand", checkpoint_upload_fn=upload
    )
    left["function"] = os.path.exists(folder)
    return left


storage = os.path.abspath("results")
result = TorchTrainer(
    train_func,
    train_loop_config={"run": os.path.join(storage, "modes")},
    scaling_config=ScalingConfig(num_workers=1),
    run_config=RunConfig(name="modes", storage_path=storage),
).fit()
outcome["left"] = {name: os.path.exists(left) if isinstance(left, str) else left for name, left in result.return_value.items()}
outcome["checkpoints"] = []
for checkpoint, metrics in result.best_checkpoints:
    with checkpoint.as_directory() as folder, open(os.path.join(folder, "value.txt")) as file:
        outcome["checkpoints"].append([metrics["way"], file.read()])
outcome["names"] = [os.path.basename(checkpoint.path) for checkpoint, _ in result.best_checkpoints[-2:]]
outcome["modes"] = {mode.name: mode.value for mode in CheckpointUploadMode}
