"""What a train loop returns: plain values as they are, anything else pickled for the driver that waits for it.

Tensors come to the driver on the CPU and without the graph that made them.
"""

import base64
import io
import pickle
import sys
from typing import Any

import cloudpickle

from paceline._travel import find_culprit

PICKLED = "__pickled__"


def encoded(value: Any) -> Any:
    """ValueError for a value that cannot be pickled."""
    if _is_plain(value):
        return value
    try:
        buffer = io.BytesIO()
        _Pickler(buffer).dump(value)
        return {PICKLED: base64.b64encode(buffer.getvalue()).decode()}
    except Exception as error:
        culprit = find_culprit(value, "the value itself")
        raise ValueError(
            f"the return value of the train loop cannot be pickled: {type(error).__name__}: {error}; what cannot be pickled "
            f"is {culprit}"
        ) from None


def decoded(value: Any, trusted: bool) -> Any:
    """`trusted`: from this driver's own workers. What was read from a file is never unpickled: None."""
    if not isinstance(value, dict) or set(value) != {PICKLED}:
        return value
    return pickle.loads(base64.b64decode(value[PICKLED])) if trusted else None


def _is_plain(value):
    if value is None or isinstance(value, (bool, float, str)):
        return type(value) in (type(None), bool, float, str)
    if type(value) is int:
        return -(2**63) <= value < 2**63
    if type(value) is list:
        return all(map(_is_plain, value))
    return type(value) is dict and all(type(key) is str and _is_plain(part) for key, part in value.items())


class _Pickler(cloudpickle.Pickler):
    def reducer_override(self, value):
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.Tensor):
            here = value if value.is_leaf else value.detach()
            return (here if here.device.type == "cpu" else here.cpu()).__reduce_ex__(pickle.HIGHEST_PROTOCOL)
        return super().reducer_override(value)
