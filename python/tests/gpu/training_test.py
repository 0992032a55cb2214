"""Training on a GPU: one rank over NCCL."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from paceline.train import ScalingConfig
from paceline.train.torch import TorchTrainer, get_device


def test_one_rank_trains_over_nccl(run_config):
    def loop():
        device = get_device()
        model = DistributedDataParallel(torch.nn.Linear(4, 1).to(device), device_ids=[device])
        before = model.module.weight.detach().clone()
        model(torch.ones(8, 4, device=device)).sum().backward()
        torch.optim.SGD(model.parameters(), 0.1).step()
        moved = (before - model.module.weight.detach()).cpu()
        total = torch.ones(3, device=device)
        dist.all_reduce(total)
        return {"backend": dist.get_backend(), "device": str(device), "moved": moved.tolist(), "total": total.tolist()}

    seen = TorchTrainer(loop, scaling_config=ScalingConfig(use_gpu=True), run_config=run_config()).fit().return_value
    assert (seen["backend"], seen["device"], seen["total"]) == ("nccl", "cuda:0", [1, 1, 1])
    assert torch.allclose(torch.tensor(seen["moved"]), torch.full((1, 4), 0.8))
