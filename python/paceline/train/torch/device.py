"""Where a worker computes."""

from typing import List

import torch

from paceline._native import native


def get_device() -> torch.device:
    """This worker's GPU with ``use_gpu``, else the CPU.

    Raises:
        RuntimeError: Outside a train loop.
    """
    return torch.device(native.get_device())


def get_devices() -> List[torch.device]:
    """All devices of this worker: several with ``resources_per_worker={"GPU": 2}``."""
    return [torch.device(name) for name in native.get_devices()]
