"""TorchCheckpoint, which Ray keeps for older programs."""

import os

import torch

import ray.train
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchCheckpoint, TorchTrainer

outcome = {}


def train_func():
    torch.manual_seed(1)
    model = torch.nn.Linear(2, 1)
    with torch.no_grad():
        model.weight.fill_(4.0)
    ray.train.report({"a": 1}, checkpoint=TorchCheckpoint.from_state_dict(model.state_dict()))


result = TorchTrainer(
    train_func,
    scaling_config=ScalingConfig(num_workers=1),
    run_config=RunConfig(name="torch", storage_path=os.path.abspath("results")),
).fit()
checkpoint = TorchCheckpoint(result.checkpoint.path, filesystem=result.checkpoint.filesystem)
model = checkpoint.get_model(torch.nn.Linear(2, 1))
outcome["weight"] = model.weight.tolist()
alone = TorchCheckpoint.from_model(torch.nn.Linear(3, 2))
with alone.as_directory() as folder:
    outcome["files"] = [name for name in sorted(os.listdir(folder)) if name.endswith(".pt")]
    outcome["name"] = TorchCheckpoint.MODEL_FILENAME
