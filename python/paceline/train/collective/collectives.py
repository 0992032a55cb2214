"""barrier, broadcast_from_rank_zero: over the channel that every worker has."""

import base64
import pickle
from typing import Any

from paceline._native import native
from paceline.train.context import inside


def barrier() -> None:
    """Waits for all ranks. After TorchConfig.timeout_s seconds it raises CollectiveError, which names the missing
    ranks.
    """
    native.barrier()


def broadcast_from_rank_zero(data: Any) -> Any:
    """Returns rank 0's value on every rank. Every rank must call it; it is meant for small values (kilobytes).

    Args:
        data: Anything that can be pickled; the values of other ranks are ignored.
    """
    text = base64.b64encode(pickle.dumps(data)).decode() if inside("broadcast_from_rank_zero").get_world_rank() == 0 else ""
    return pickle.loads(base64.b64decode(native.broadcast_from_rank_zero(text)))
