"""What a user's callback can ask of its run."""

import json
import os

import ray.train
from ray.train import FailureConfig, RunConfig, ScalingConfig, UserCallback
from ray.train.torch import TorchTrainer

outcome = {}


class Asks(UserCallback):
    def __init__(self, path):
        self.path = path

    def after_report(self, run_context, metrics, checkpoint):
        with open(self.path, "w") as file:
            json.dump(
                {
                    "name": run_context.run_config.name,
                    "storage": os.path.basename(run_context.run_config.storage_path),
                    "failures": run_context.run_config.failure_config.max_failures,
                    "workers": run_context.scaling_config.num_workers,
                    "config": run_context.train_loop_config,
                    "asked": run_context.get_run_config().name,
                    "id": isinstance(run_context.run_id, str) and len(run_context.run_id) > 0,
                },
                file,
            )


def train_func(config):
    ray.train.report({"a": config["a"]})


TorchTrainer(
    train_func,
    train_loop_config={"a": [1, 2]},
    scaling_config=ScalingConfig(num_workers=2),
    run_config=RunConfig(
        name="asked",
        storage_path=os.path.abspath("results"),
        failure_config=FailureConfig(max_failures=3),
        callbacks=[Asks(os.path.abspath("asked.json"))],
    ),
).fit()
with open("asked.json") as file:
    outcome["asked"] = json.load(file)
