"""Ray's guide on fault tolerance: failures until the limit, training that goes on from the latest checkpoint."""

import os
import tempfile

import torch

import ray.train
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig, TrainingFailedError
from ray.train.torch import TorchTrainer

outcome = {}


def train_func(config):
    rank = ray.train.get_context().get_world_rank()
    step, starts = 0, []
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            state = torch.load(os.path.join(folder, "state.pt"))
        step, starts = state["step"] + 1, state["starts"]
    starts = [*starts, step]
    while step < 6:
        with tempfile.TemporaryDirectory() as folder:
            torch.save({"step": step, "starts": starts}, os.path.join(folder, "state.pt"))
            ray.train.report({"step": step}, checkpoint=Checkpoint.from_directory(folder) if rank == 0 else None)
        ray.train.get_all_reported_checkpoints()  # what was reported is committed from here on
        if step in config["fails"] and rank == config["rank"] and not os.path.exists(f"{config['marks']}/{step}"):
            open(f"{config['marks']}/{step}", "w").close()
            raise RuntimeError(f"at step {step}")
        torch.distributed.barrier()
        step += 1
    return starts


def fit(name, fails, rank, limit):
    marks = os.path.abspath(f"marks_{name}")
    os.makedirs(marks)
    trainer = TorchTrainer(
        train_func,
        train_loop_config={"fails": fails, "rank": rank, "marks": marks},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            name=name,
            storage_path=os.path.abspath("results"),
            failure_config=FailureConfig(max_failures=limit),
        ),
    )
    try:
        result = trainer.fit()
    except TrainingFailedError as error:
        saved = ray.train.Result.from_path(os.path.abspath(f"results/{name}"))
        return ["failed", sorted(error.worker_failures), saved.metrics, len(saved.best_checkpoints)]
    return ["done", result.return_value, result.metrics, len(result.best_checkpoints)]


outcome["enough"] = fit("enough", fails=[1, 3], rank=1, limit=2)
outcome["too_few"] = fit("too_few", fails=[1, 3], rank=0, limit=1)
