"""A Result: its members, its best checkpoints, and itself read back from its folder."""

import os
import pathlib
import tempfile

import pyarrow.fs

import ray.train
from ray.train import Checkpoint, Result, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

outcome = {}


def train_func():
    rank = ray.train.get_context().get_world_rank()
    for step, loss in enumerate([0.5, 0.125, 0.25]):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "step"), "w") as file:
                file.write(str(step))
            metrics = {"step": step, "loss": loss, "rank": rank, "eval": {"accuracy": 1 - loss}, "note": f"step {step}"}
            ray.train.report(metrics, checkpoint=Checkpoint.from_directory(folder))
    return {"rank": rank}


def step_of(checkpoint):
    with checkpoint.as_directory() as folder, open(os.path.join(folder, "step")) as file:
        return file.read()


def members(result):
    return {
        "metrics": result.metrics,
        "latest": step_of(result.checkpoint),
        "all": [[step_of(checkpoint), metrics["loss"]] for checkpoint, metrics in result.best_checkpoints],
        "columns": sorted(result.metrics_dataframe.columns),
        "rows": result.metrics_dataframe[["step", "loss", "rank"]].values.tolist(),
        "lowest": step_of(result.get_best_checkpoint("loss", "min")),
        "highest": step_of(result.get_best_checkpoint("loss", "max")),
        "nested": step_of(result.get_best_checkpoint("eval/accuracy", "max")),
        "error": result.error,
        "path": os.path.relpath(result.path, os.path.abspath("results")),
        "filesystem": isinstance(result.filesystem, pyarrow.fs.LocalFileSystem),
    }


def refused(ask, kind):
    try:
        ask()
    except kind:
        return kind.__name__
    return "accepted"


result = TorchTrainer(
    train_func,
    scaling_config=ScalingConfig(num_workers=2),
    run_config=RunConfig(name="result", storage_path=os.path.abspath("results")),
).fit()
outcome["fresh"] = members(result)
outcome["returned"] = result.return_value  # from_path() has it in Paceline only
outcome["read_back"] = members(Result.from_path(result.path))
outcome["by_path_object"] = Result.from_path(pathlib.Path(result.path)).metrics
outcome["with_slash"] = Result.from_path(result.path + "/").metrics
outcome["with_filesystem"] = Result.from_path(result.path, storage_filesystem=pyarrow.fs.LocalFileSystem()).metrics
outcome["unknown_metric"] = refused(lambda: result.get_best_checkpoint("other", "max"), RuntimeError)
outcome["unknown_mode"] = refused(lambda: result.get_best_checkpoint("loss", "bogus"), ValueError)
outcome["no_folder"] = refused(lambda: Result.from_path(os.path.abspath("nowhere")), RuntimeError)
outcome["no_run"] = refused(lambda: Result.from_path(os.path.abspath(".")), RuntimeError)
outcome["config"] = refused(lambda: result.config, DeprecationWarning)
info = result.filesystem.get_file_info(os.path.join(result.path, os.path.basename(result.checkpoint.path), "step"))
outcome["file"] = info.type.name
by_hand = Result(metrics={"a": 1}, checkpoint=None, error=None, path="/somewhere")
outcome["by_hand"] = [by_hand.metrics, by_hand.checkpoint, by_hand.path, by_hand.best_checkpoints, by_hand.return_value]
