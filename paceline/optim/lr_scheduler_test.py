"""Prints the learning rates of PyTorch's schedulers as JSON, for lr_scheduler_test.cpp to compare with."""

import json
import warnings

import torch
from torch.optim import lr_scheduler

warnings.simplefilter("ignore")
BASE = 0.5


def rates(make, steps):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=BASE)
    scheduler = make(optimizer)
    result = []
    for _ in range(steps):
        result.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return result


def one_cycle(steps, **options):
    return rates(lambda o: lr_scheduler.OneCycleLR(o, max_lr=BASE, total_steps=steps, **options), steps)


def warm_up_cosine(optimizer):
    return lr_scheduler.SequentialLR(
        optimizer,
        [
            lr_scheduler.LinearLR(optimizer, start_factor=0.01, end_factor=1.0, total_iters=5),
            lr_scheduler.CosineAnnealingLR(optimizer, T_max=20, eta_min=0.1 * BASE),
        ],
        milestones=[5],
    )


print(
    json.dumps(
        {
            "linear": rates(lambda o: lr_scheduler.LinearLR(o, 0.25, 0.75, total_iters=7), 12),
            "cosine": rates(lambda o: lr_scheduler.CosineAnnealingLR(o, T_max=10, eta_min=0.2 * BASE), 25),
            "step": rates(lambda o: lr_scheduler.StepLR(o, step_size=3, gamma=0.4), 14),
            "one_cycle": one_cycle(50),
            "one_cycle_linear": one_cycle(37, pct_start=0.4, anneal_strategy="linear", div_factor=10.0),
            "one_cycle_three": one_cycle(41, three_phase=True, final_div_factor=100.0),
            "warm_up_cosine": rates(warm_up_cosine, 25),
        }
    )
)
