"""Prints parameters after 20 steps of PyTorch's fused optimizers as JSON, for fused_test.cpp to compare with."""

import json

import torch


def train(make):
    weight = torch.nn.Parameter(torch.arange(12, dtype=torch.float32).view(3, 4) / 10)
    optimizer = make([weight])
    for step in range(20):
        weight.grad = torch.sin(torch.arange(12, dtype=torch.float32).view(3, 4) + step)
        optimizer.step()
    return weight.detach().flatten().tolist()


print(
    json.dumps(
        {
            "AdamW": train(lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1, amsgrad=True, fused=True)),
            "Adam": train(lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=0.1, fused=True)),
            "SGD": train(
                lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, weight_decay=0.1, nesterov=True, fused=True)
            ),
        }
    )
)
