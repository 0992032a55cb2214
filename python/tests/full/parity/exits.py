"""Loops that end otherwise than by return: sys.exit, a killed process."""

import os
import signal
import sys

import ray.train
from ray.train import FailureConfig, RunConfig, ScalingConfig, TrainingFailedError
from ray.train.torch import TorchTrainer

outcome = {}


def killed(config):
    if not os.path.exists(config["mark"]):
        open(config["mark"], "w").close()
        ray.train.report({"alive": True})
        os.kill(os.getpid(), signal.SIGKILL)
    return "second attempt"


def exits_with_text(config):
    sys.exit("text")


def fit(loop, limit=0):
    name = loop.__name__
    trainer = TorchTrainer(
        loop,
        train_loop_config={"mark": os.path.abspath(f"mark_{name}")},
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(
            name=name, storage_path=os.path.abspath("results"), failure_config=FailureConfig(max_failures=limit)
        ),
    )
    try:
        result = trainer.fit()
    except TrainingFailedError as error:
        return ["failed", type(error).__name__, sorted(getattr(error, "worker_failures", {}))]
    return ["done", result.return_value]


outcome["killed once"] = fit(killed, limit=1)
outcome["exit with text"] = fit(exits_with_text)
