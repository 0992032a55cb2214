"""What a train loop returns: plain values as they are, anything else pickled for the driver that waits for it."""

import base64
import pickle
from typing import Any

import cloudpickle

from paceline._travel import find_culprit

PICKLED = "__pickled__"


def encoded(value: Any) -> Any:
    """ValueError for a value that holds torch tensors or modules, or that cannot be pickled."""
    _refuse_torch(value, "the return value")
    if _is_plain(value):
        return value
    try:
        return {PICKLED: base64.b64encode(cloudpickle.dumps(value)).decode()}
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


def _refuse_torch(value, place):
    import torch

    if isinstance(value, (torch.Tensor, torch.nn.Module)):
        raise ValueError(
            f"{place} of the train loop is a {type(value).__name__}; return numbers, or hand tensors over as a "
            "checkpoint (report(…, checkpoint=…))"
        )
    if isinstance(value, dict):
        for key, part in value.items():
            _refuse_torch(part, f"{place}[{key!r}]")
    elif isinstance(value, (list, tuple)):
        for i, part in enumerate(value):
            _refuse_torch(part, f"{place}[{i}]")
