"""The CIFAR-10 photographs as a PyTorch dataset."""

import os
from typing import Optional, Tuple

import torch

from vision.fetch import fetch

SIDE = 32
RECORD = 1 + 3 * SIDE * SIDE  # bytes: the label, then red, green and blue


class Cifar10(torch.utils.data.Dataset):
    """50,000 photographs of ten kinds of things to train on or 10,000 to test with; an item is an image and its label.

    Args:
        root: Its folder ``cifar-10-batches-bin`` has the files of the dataset's binary version. What is missing there is
            fetched by tools/fetch_cifar10 first.
        train: The photographs to train on, or those to test with.
        limit: Only the first so many; None: all.

    Raises:
        RuntimeError: When a file cannot be fetched.
        ValueError: For a file that is not CIFAR-10's.

    Example:
        >>> image, label = Cifar10("data")[0]   # [3, 32, 32] float32 in [-1, 1], red, green and blue; 6
    """

    def __init__(self, root: str, train: bool = True, limit: Optional[int] = None):
        names = [f"data_batch_{number}.bin" for number in range(1, 6)] if train else ["test_batch.bin"]
        files = [os.path.join(root, "cifar-10-batches-bin", name) for name in names]
        if not all(map(os.path.exists, files)):
            fetch("fetch_cifar10", root)
        records = torch.cat([_read_records(file) for file in files])[:limit]
        self.labels = records[:, 0].long()
        self.pixels = records[:, 1:].reshape(-1, 3, SIDE, SIDE)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, row: int) -> Tuple[torch.Tensor, int]:
        return self.pixels[row].float().mul_(2 / 255).sub_(1), self.labels[row].item()


def _read_records(path):
    """[records, RECORD] uint8."""
    with open(path, "rb") as file:
        content = bytearray(file.read())
    records = torch.frombuffer(content, dtype=torch.uint8) if content else torch.empty(0, dtype=torch.uint8)
    if not content or len(content) % RECORD != 0 or records[::RECORD].max() > 9:
        raise ValueError(
            f"{path} is not a file of CIFAR-10: it should hold records of {RECORD} bytes that begin with a label from 0 "
            f"to 9, and has {len(content)} bytes. Remove it, and it will be fetched again"
        )
    return records.view(-1, RECORD)
