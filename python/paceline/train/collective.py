"""Meetings of a run's ranks outside torch.distributed."""

import base64
import pickle
from typing import Any

from paceline._native import native
from paceline.train.context import inside


def barrier() -> None:
    """Waits for all ranks. CollectiveError naming the missing ranks after TorchConfig.timeout_s seconds."""
    native.barrier()


def broadcast_from_rank_zero(data: Any) -> Any:
    """Rank 0's value, on every rank. Every rank calls it; meant for small values (kilobytes).

    Args:
        data: Anything that can be pickled; of the other ranks' it is ignored.
    """
    text = base64.b64encode(pickle.dumps(data)).decode() if inside("broadcast_from_rank_zero").get_world_rank() == 0 else ""
    return pickle.loads(base64.b64decode(native.broadcast_from_rank_zero(text)))
