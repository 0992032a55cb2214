"""The MNIST handwritten digits as a PyTorch dataset."""

import os
from typing import Optional, Tuple

import torch

from vision.fetch import fetch

MEAN, DEVIATION = 0.1307, 0.3081  # of the pixels of all training digits


class Mnist(torch.utils.data.Dataset):
    """60,000 digits to train on or 10,000 to test with; an item is an image and its label.

    Args:
        root: Folder of the digits. What is missing there is fetched by tools/fetch_mnist first.
        train: The digits to train on, or those to test with.
        limit: Only the first so many; None: all.

    Attributes:
        pixels: The images as they are drawn: ``[size, 28, 28]`` uint8, 0 for the background.
        labels: ``[size]`` int64.

    Raises:
        RuntimeError: When a file cannot be fetched.
        ValueError: For a file that is not MNIST's.

    Example:
        >>> image, label = Mnist("data")[0]   # [1, 28, 28] float32, of mean 0 and deviation 1 over MNIST; 5
    """

    def __init__(self, root: str, train: bool = True, limit: Optional[int] = None):
        prefix = "train" if train else "t10k"
        files = [os.path.join(root, f"{prefix}-{name}") for name in ("images-idx3-ubyte", "labels-idx1-ubyte")]
        if not all(map(os.path.exists, files)):
            fetch("fetch_mnist", root)
        self.pixels = _read_idx(files[0], dimensions=3)[:limit]
        self.labels = _read_idx(files[1], dimensions=1)[:limit].long()

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, row: int) -> Tuple[torch.Tensor, int]:
        image = self.pixels[row].unsqueeze(0).float().div_(255).sub_(MEAN).div_(DEVIATION)
        return image, self.labels[row].item()


def _read_idx(path, dimensions):
    """An IDX file of bytes: a magic number (0x08, the rank), the big-endian length of each dimension, the values."""
    with open(path, "rb") as file:
        content = bytearray(file.read())
    numbers = [int.from_bytes(content[at : at + 4], "big") for at in range(0, 4 * dimensions + 4, 4)]
    shape, header = numbers[1:], 4 * len(numbers)
    wanted = header + torch.Size(shape).numel()
    if numbers[0] != 0x0800 + dimensions or len(content) != wanted:
        raise ValueError(
            f"{path} is not an IDX file of bytes in {dimensions} dimensions, or is cut short ({len(content)} bytes). "
            "Remove it, and it will be fetched again"
        )
    return torch.frombuffer(content, dtype=torch.uint8, offset=header).view(shape)
