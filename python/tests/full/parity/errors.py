"""What fit() raises when workers fail: which ranks, which exceptions, of which classes."""

import os

import ray.train
from ray.train import RunConfig, ScalingConfig, TrainingFailedError, WorkerGroupError
from ray.train.torch import TorchTrainer

outcome = {}


class OutOfLuck(Exception):
    def __init__(self, number):
        super().__init__(f"out of luck: {number}")
        self.number = number


def one_fails():
    if ray.train.get_context().get_world_rank() == 1:
        raise ValueError("rank one says no")
    ray.train.collective.barrier()


def all_fail():
    raise OutOfLuck(7)


def failure(name, loop, workers=2):
    try:
        TorchTrainer(
            loop,
            scaling_config=ScalingConfig(num_workers=workers),
            run_config=RunConfig(name=name, storage_path=os.path.abspath("results")),
        ).fit()
    except TrainingFailedError as error:
        return error
    return None


import ray.train.collective  # noqa: E402

error = failure("one", one_fails)
outcome["one"] = {
    "class": type(error).__name__,
    "of_group": isinstance(error, WorkerGroupError),
    "ranks": sorted(error.worker_failures),
    "failure": type(error.worker_failures[1]).__name__,
    "said": "rank one says no" in str(error.worker_failures[1]),
    "in_text": "rank one says no" in str(error),
    "line": "one_fails" in str(error),
}
error = failure("all", all_fail)
outcome["all"] = {  # Ray has those that had failed when it looked
    "some": bool(error.worker_failures),
    "said": all("out of luck: 7" in str(failure) for failure in error.worker_failures.values()),
    "in_text": "OutOfLuck" in str(error),
}
outcome["hierarchy"] = issubclass(WorkerGroupError, TrainingFailedError)
