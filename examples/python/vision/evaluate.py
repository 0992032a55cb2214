"""What a classifier makes of examples that it was not trained on, over all workers."""

from typing import Iterable, Tuple

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset, Subset

from paceline.train import get_context
from paceline.train.torch import get_device


def evaluate(model: torch.nn.Module, dataset: Dataset, batch_size: int) -> Tuple[float, float]:
    """evaluate_batches() of a PyTorch dataset of images and labels.

    Each worker takes every world_size-th example, so that each counts once: a DistributedSampler would count some twice
    where the workers cannot share them out equally.

    Args:
        model: Gives logits.
        dataset: Of images and labels.
        batch_size: Examples that a worker computes at a time.

    Example:
        >>> loss, accuracy = evaluate(model, Mnist("data", train=False), batch_size=250)
    """
    own = range(get_context().get_world_rank(), len(dataset), get_context().get_world_size())
    return evaluate_batches(model, DataLoader(Subset(dataset, own), batch_size))


@torch.no_grad()
def evaluate_batches(model: torch.nn.Module, batches: Iterable[Tuple[torch.Tensor, torch.Tensor]]) -> Tuple[float, float]:
    """Mean cross entropy and share of right answers (0 to 1); every worker gets the same.

    Call it on every worker; ``model`` is left in training mode.

    Args:
        model: Gives logits.
        batches: This worker's images and labels; workers may have differently many.
    """
    device = get_device()
    sums = torch.zeros(3, dtype=torch.float64, device=device)
    model.eval()
    for images, labels in batches:
        images, labels = images.to(device), labels.to(device)
        logits = model(images)
        sums[0] += torch.nn.functional.cross_entropy(logits, labels, reduction="sum")
        sums[1] += (logits.argmax(1) == labels).sum()
        sums[2] += len(labels)
    model.train()
    if get_context().get_world_size() > 1:
        dist.all_reduce(sums)
    loss, right, count = sums.tolist()
    return loss / count, right / count
