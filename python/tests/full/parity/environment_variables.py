"""Variables that a run gives to its workers, and not to the driver."""

import os

import ray.train
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

outcome = {}


def train_func():
    return {name: os.environ.get(name) for name in ("OF_RUN", "EMPTY", "NUMBER", "NCCL_DEBUG", "ABSENT")}


variables = {"OF_RUN": "run", "EMPTY": "", "NUMBER": "3", "NCCL_DEBUG": "INFO"}
outcome["workers"] = TorchTrainer(
    train_func,
    scaling_config=ScalingConfig(num_workers=1),
    run_config=RunConfig(
        name="given", storage_path=os.path.abspath("results"), worker_runtime_env={"env_vars": variables}
    ),
).fit().return_value
outcome["driver"] = os.environ.get("OF_RUN")
