"""A driver: fits the runs that come on standard input, and tells on standard output how they go; both a line of JSON each.

A run is {"name", "folder", "steps", "gates", "scaling", "failure", "debug", "work_folder"}. Its train loop does the same whoever
executes it where: each step's batch follows from rank and step. Before the steps in `gates` every rank waits until the file
gate_STEP is in `folder`. After each step each rank reports a checkpoint with a file of its own, which it writes in
`work_folder`.
"""

import hashlib
import json
import os
import pathlib
import socket
import sys
import tempfile
import time

import torch

import paceline.train as train
from paceline.train import DebugConfig, FailureConfig, RunConfig, ScalingConfig
from paceline.train.torch import TorchTrainer


def trains(config):
    rank = train.get_context().get_world_rank()
    torch.manual_seed(0)
    model = train.torch.prepare_model(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    start = 0
    if checkpoint := train.get_checkpoint():
        with checkpoint.as_directory() as folder:
            state = torch.load(pathlib.Path(folder) / "model.pt")
            start = json.loads((pathlib.Path(folder) / f"rank_{rank}.json").read_text())["step"] + 1
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    for step in range(start, config["steps"]):
        while step in config["gates"] and not (pathlib.Path(config["folder"]) / f"gate_{step}").exists():
            time.sleep(0.02)
        batch = torch.randn(16, 64, generator=torch.Generator().manual_seed(1000 * rank + step))
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
        weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
        with tempfile.TemporaryDirectory(dir=config["work_folder"]) as folder:
            # First what says plainly that a disk is full; torch.save() does not.
            (pathlib.Path(folder) / f"rank_{rank}.json").write_text(json.dumps({"step": step}))
            if rank == 0:
                state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}
                torch.save(state, pathlib.Path(folder) / "model.pt")
            train.report(
                {
                    "step": step,
                    "attempt": train.get_context().get_attempt(),
                    "machine": socket.gethostname(),
                    "process": os.getpid(),
                    "weights": hashlib.sha256(weights.numpy().tobytes()).hexdigest(),
                },
                checkpoint=train.Checkpoint.from_directory(folder),
            )


def tell(**what):
    print(json.dumps(what), flush=True)


class Tells(train.UserCallback):
    def after_report(self, run_context, metrics, checkpoint):
        first = metrics[0]
        tell(
            kind="report",
            step=first["step"],
            attempt=first["attempt"],
            machines=[one["machine"] for one in metrics],
            processes=[one["process"] for one in metrics],
            weights=first["weights"],
            checkpoint=checkpoint and checkpoint.path,
        )


def fit(run):
    try:
        result = TorchTrainer(
            trains,
            train_loop_config={name: run[name] for name in ("steps", "gates", "folder", "work_folder")},
            scaling_config=ScalingConfig(num_workers=2, **run["scaling"]),
            run_config=RunConfig(
                name=run["name"],
                storage_path=run["folder"],
                quiet=True,
                failure_config=FailureConfig(**run["failure"]),
                debug_config=DebugConfig(**run["debug"]),
                callbacks=[Tells()],
            ),
        ).fit()
        tell(kind="end", error="", metrics=result.metrics)
    except train.TrainingFailedError as error:
        tell(kind="end", error=str(error))


if __name__ == "__main__":
    tell(kind="ready")
    for line in sys.stdin:
        fit(json.loads(line))
