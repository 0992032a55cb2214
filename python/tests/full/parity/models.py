"""prepare_model in its variants; training with accumulated gradients, buffers, frozen and unused parameters."""

import os

import torch
from torch.nn.parallel import DistributedDataParallel

import ray.train
import ray.train.torch
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

outcome = {}


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.used = torch.nn.Linear(2, 2)
        self.unused = torch.nn.Linear(2, 2)
        self.frozen = torch.nn.Linear(2, 2)
        self.frozen.requires_grad_(False)
        self.norm = torch.nn.BatchNorm1d(2)

    def forward(self, inputs):
        return self.norm(self.frozen(self.used(inputs)))


def train_func():
    rank = ray.train.get_context().get_world_rank()
    prepare = ray.train.torch.prepare_model
    plain = prepare(torch.nn.Linear(2, 1), parallel_strategy=None)
    seen = {"plain": type(plain).__name__}
    ddp = prepare(torch.nn.Linear(2, 1))
    seen["ddp"] = [isinstance(ddp, DistributedDataParallel), type(ddp.module).__name__]
    keys = {"plain": list(plain.state_dict()), "ddp": list(ddp.state_dict())}
    model = prepare(Net(), parallel_strategy_kwargs={"find_unused_parameters": True})
    optimizer = torch.optim.SGD([value for value in model.parameters() if value.requires_grad], lr=0.1)
    inputs = torch.arange(8.0).reshape(4, 2) * (rank + 1)
    for step in range(4):
        if step % 2 == 0:
            with model.no_sync():
                model(inputs).square().sum().backward()
        else:
            model(inputs).square().mean().backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
    weights = {name: value.tolist() for name, value in model.module.state_dict().items()}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = ddp(torch.ones(1, 2)).dtype
    device = prepare(torch.nn.Linear(1, 1), move_to_device=torch.device("cpu"))
    both = [None, None]
    torch.distributed.all_gather_object(both, weights["used.weight"])
    return {
        "seen": seen,
        "keys": keys,
        "weights": {name: weights[name] for name in ("used.weight", "unused.weight", "frozen.weight", "norm.weight")},
        "batches": weights["norm.num_batches_tracked"],
        "equal": both[0] == both[1],
        "mixed": str(mixed),
        "device": str(next(device.parameters()).device),
    }


outcome["returned"] = TorchTrainer(
    train_func,
    scaling_config=ScalingConfig(num_workers=2),
    run_config=RunConfig(name="models", storage_path=os.path.abspath("results")),
).fit().return_value
