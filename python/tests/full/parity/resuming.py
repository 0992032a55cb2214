"""Runs that go on: the same name and storage path again, a second fit() of one trainer, a checkpoint of another run."""

import os
import tempfile

import ray.train
from ray.train import Checkpoint, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

outcome = {}


def value_of(checkpoint):
    if checkpoint is None:
        return None
    with checkpoint.as_directory() as folder, open(os.path.join(folder, "value")) as file:
        return int(file.read())


def train_func(config):
    begin = value_of(ray.train.get_checkpoint())
    if begin is None:
        begin = value_of(config.get("from"))
    value = 0 if begin is None else begin
    for _ in range(2):
        value += 1
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "value"), "w") as file:
                file.write(str(value))
            ray.train.report({"value": value}, checkpoint=Checkpoint.from_directory(folder))
    return begin


def trainer(name, **config):
    return TorchTrainer(
        train_func,
        train_loop_config=config,
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(name=name, storage_path=os.path.abspath("results")),
    )


def described(result):
    return [result.return_value, result.metrics, [metrics["value"] for _, metrics in result.best_checkpoints]]


same = trainer("group/run")
first = same.fit()
outcome["first"] = described(first)
outcome["fit again"] = described(same.fit())
outcome["same name"] = described(trainer("group/run").fit())
outcome["from another"] = described(trainer("other", **{"from": first.checkpoint}).fit())
outcome["there"] = os.path.isdir("results/group/run")
