"""A user's callbacks on reports and exceptions; what they write into files is what they were given."""

import json
import os
import tempfile

import ray.train
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig, UserCallback
from ray.train.torch import TorchTrainer

outcome = {}


class Writes(UserCallback):
    def __init__(self, path):
        self.path = path

    def write(self, *line):
        with open(self.path, "a") as file:
            file.write(json.dumps(line) + "\n")

    def after_report(self, run_context, metrics, checkpoint):
        listed = None
        if checkpoint:
            with checkpoint.as_directory() as folder:
                listed = sorted(name for name in os.listdir(folder) if name.startswith("rank"))
        self.write("report", run_context.run_config.name, metrics, listed)

    def after_exception(self, run_context, worker_exceptions):
        self.write("exception", {rank: "at step 2" in str(error) for rank, error in worker_exceptions.items()})


def train_func(config):
    rank = ray.train.get_context().get_world_rank()
    start = 0 if ray.train.get_checkpoint() is None else 2
    for step in range(start, 4):
        if step == 2 and start == 0 and rank == 1:
            ray.train.get_all_reported_checkpoints()
            raise RuntimeError("at step 2")
        if step % 2:
            with tempfile.TemporaryDirectory() as folder:
                open(os.path.join(folder, f"rank{rank}"), "w").close()
                ray.train.report({"step": step, "rank": rank}, checkpoint=Checkpoint.from_directory(folder))
        else:
            ray.train.report({"step": step, "rank": rank})


path = os.path.abspath("lines.jsonl")
result = TorchTrainer(
    train_func,
    scaling_config=ScalingConfig(num_workers=2),
    run_config=RunConfig(
        name="called",
        storage_path=os.path.abspath("results"),
        callbacks=[Writes(path)],
        failure_config=FailureConfig(max_failures=1),
    ),
).fit()
lines = [json.loads(line) for line in open(path)]
outcome["reports"] = [line for line in lines if line[0] == "report"]
outcome["exceptions"] = [line for line in lines if line[0] == "exception"]
outcome["metrics"] = result.metrics


def not_a_callback():
    try:
        RunConfig(callbacks=[print])
    except Exception as error:
        return isinstance(error, ValueError)


outcome["refused"] = not_a_callback()
