"""Validations that time out or return no dictionary, and what is asked of their configuration."""

import os
import tempfile
import time

import ray.train
from ray.train import Checkpoint, RunConfig, ScalingConfig, ValidationConfig, ValidationTaskConfig
from ray.train.torch import TorchTrainer

outcome = {}


def validate(checkpoint, what):
    if what == "sleep":
        time.sleep(100)
    return {"number": 5, "text": "text", "dict": {"what": what}}[what]


def train_func():
    for what in ("sleep", "number", "dict"):
        with tempfile.TemporaryDirectory() as folder:
            open(os.path.join(folder, "file"), "w").close()
            task = ValidationTaskConfig(fn_kwargs={"what": what}, timeout_s=1 if what == "sleep" else None)
            ray.train.report({"asked": what}, Checkpoint.from_directory(folder), validation=task)
    return sorted([one.metrics["asked"], one.status.value] for one in ray.train.get_all_reported_checkpoints())


def refused(make):
    try:
        make()
    except Exception as error:
        return isinstance(error, (AssertionError, ValueError))
    return False


def without_checkpoint():
    try:
        ray.train.report({"a": 1}, validation=True)
    except ValueError:
        return "refused"


settings = RunConfig(name="tasks", storage_path=os.path.abspath("results"))
trainer = TorchTrainer(
    train_func,
    validation_config=ValidationConfig(fn=validate),
    scaling_config=ScalingConfig(num_workers=1),
    run_config=settings,
)
result = trainer.fit()
outcome["statuses"] = result.return_value
outcome["metrics"] = result.metrics
outcome["defaults"] = [ValidationTaskConfig().fn_kwargs, ValidationTaskConfig().timeout_s]
outcome["of_config"] = [ValidationConfig(validate).task_config == ValidationTaskConfig(), ValidationConfig(validate).ray_remote_kwargs]
outcome["no_time"] = refused(lambda: ValidationTaskConfig(timeout_s=0))
other = RunConfig(name="other", storage_path=os.path.abspath("results"))
outcome["no_checkpoint"] = TorchTrainer(
    without_checkpoint, validation_config=ValidationConfig(fn=validate), run_config=other
).fit().return_value
