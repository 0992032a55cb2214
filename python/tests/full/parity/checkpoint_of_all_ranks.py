"""A sharded checkpoint: every rank hands over its own file, nested folders included, and one checkpoint has them all."""

import json
import os
import tempfile

import ray.train
from ray.train import Checkpoint, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

outcome = {}


def train_func():
    rank = ray.train.get_context().get_world_rank()
    for step in range(2):
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(os.path.join(folder, "shards", f"{rank}"))
            for name in (f"shards/{rank}/part.json", f"rank={rank}.json"):
                with open(os.path.join(folder, name), "w") as file:
                    json.dump({"rank": rank, "step": step}, file)
            open(os.path.join(folder, "empty"), "w").close()
            ray.train.report({"step": step, "rank": rank}, checkpoint=Checkpoint.from_directory(folder))
    seen = ray.train.get_checkpoint()
    with seen.as_directory() as folder:
        return sorted(os.listdir(folder))


result = TorchTrainer(
    train_func,
    scaling_config=ScalingConfig(num_workers=3),
    run_config=RunConfig(name="sharded", storage_path=os.path.abspath("results")),
).fit()
with result.checkpoint.as_directory() as folder:
    outcome["files"] = sorted(
        os.path.relpath(os.path.join(where, name), folder) for where, _, names in os.walk(folder) for name in names
        if name.endswith(".json") and not name.startswith((".", "manifest", "paceline")) or name == "empty"
    )
    with open(os.path.join(folder, "shards/2/part.json")) as file:
        outcome["of_rank_2"] = json.load(file)
outcome["metrics"] = result.metrics
outcome["seen"] = sorted(set(result.return_value) & {"shards", "rank=0.json", "rank=1.json", "rank=2.json", "empty"})
outcome["same"] = os.path.samefile(result.checkpoint.path, result.best_checkpoints[-1][0].path)
