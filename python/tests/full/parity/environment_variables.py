"""Variables of the driver and of the run in the workers; which of the two goes over the other."""

import os

import ray.train
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

outcome = {}


def train_func():
    return {name: os.environ.get(name) for name in ("OF_RUN", "EMPTY", "NUMBER", "NCCL_DEBUG", "ABSENT")}


def fit(name, **settings):
    return TorchTrainer(
        train_func,
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(name=name, storage_path=os.path.abspath("results"), **settings),
    ).fit().return_value


variables = {"OF_RUN": "run", "EMPTY": "", "NUMBER": "3", "NCCL_DEBUG": "INFO"}
outcome["given"] = fit("given", worker_runtime_env={"env_vars": variables})
outcome["gone"] = fit("gone")
outcome["driver"] = os.environ.get("OF_RUN")
