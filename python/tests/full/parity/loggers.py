"""Loggers in the loop, on rank zero alone: TensorBoard's events, a CSV file, Python's logging."""

import csv
import logging
import os

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.tensorboard import SummaryWriter

import ray.train
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

outcome = {}


def train_func(config):
    logger = logging.getLogger("my.training")
    handler = logging.FileHandler(os.path.join(config["folder"], f"log_{ray.train.get_context().get_world_rank()}"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    main = ray.train.get_context().get_world_rank() == 0
    writer = SummaryWriter(os.path.join(config["folder"], "events")) if main else None
    rows = []
    for step in range(4):
        loss = 1 / (step + 1)
        logger.info("step %d", step)
        if main:
            writer.add_scalar("loss", loss, step)
            rows.append([step, loss])
        ray.train.report({"loss": loss})
    if main:
        writer.close()
        with open(os.path.join(config["folder"], "losses.csv"), "w", newline="") as file:
            csv.writer(file).writerows(rows)
    handler.close()


folder = os.path.abspath("logs")
os.makedirs(folder)
TorchTrainer(
    train_func,
    train_loop_config={"folder": folder},
    scaling_config=ScalingConfig(num_workers=2),
    run_config=RunConfig(name="logged", storage_path=os.path.abspath("results")),
).fit()
events = EventAccumulator(os.path.join(folder, "events")).Reload()
outcome["events"] = [[event.step, round(event.value, 6)] for event in events.Scalars("loss")]
outcome["csv"] = open(os.path.join(folder, "losses.csv")).read().split()
outcome["logs"] = [open(os.path.join(folder, f"log_{rank}")).read().splitlines() for rank in (0, 1)]
