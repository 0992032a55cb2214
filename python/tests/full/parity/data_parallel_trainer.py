"""DataParallelTrainer without torch, and a backend of one's own whose context wraps the loop."""

import os
from contextlib import contextmanager

import ray.train
from ray.train import BackendConfig, RunConfig, ScalingConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

outcome = {}


class Wrapped(BackendConfig):
    @property
    def train_func_context(self):
        @contextmanager
        def wrap():
            os.environ["WRAPPED"] = "yes"
            yield

        return wrap


def train_func(config):
    ray.train.report({"value": config["value"]})
    return [os.environ.get("WRAPPED"), ray.train.get_context().get_world_size()]


outcome["returned"] = DataParallelTrainer(
    train_func,
    train_loop_config={"value": 1},
    backend_config=Wrapped(),
    scaling_config=ScalingConfig(num_workers=2),
    run_config=RunConfig(name="wrapped", storage_path=os.path.abspath("results")),
).fit().return_value
