"""What a train loop returns: plain values in the form of metrics, anything else pickled for the driver that waits for it.

What is pickled is the list ["$pickled", text], a mark beside those of metrics; a plain value that looks like that is escaped
as they are. Formerly it was the dict {"__pickled__": text}, which folders of runs still have. Tensors come to the driver on
the CPU, those without data (device meta) as they are, and without the graph that made them.
"""

import base64
import io
import itertools
import pickle
import sys
from typing import Any

import cloudpickle

from paceline import _notices
from paceline._exception_text import text_of
from paceline._travel import find_culprit
from paceline.train import _metrics

PICKLED = "$pickled"
_FORMER = "__pickled__"
_DEEPEST = 50  # of plain values: JSON is read with a limit, and what contains itself has no end


def encoded(value: Any) -> Any:
    """ValueError for a value that cannot be pickled."""
    if _is_plain(value):
        return _in_order(_metrics.encoded_value(value, "the return value"))
    try:
        buffer = io.BytesIO()
        _Pickler(buffer).dump(value)
        return [PICKLED, base64.b64encode(buffer.getvalue()).decode()]
    except Exception as error:
        culprit = find_culprit(value, "the value itself")
        message = f"the return value of the train loop cannot be pickled: {type(error).__name__}: {error}"
        raise ValueError(f"{message}; what cannot be pickled is {culprit}" if culprit else message) from None


def decoded(value: Any, trusted: bool) -> Any:
    """`trusted`: from this driver's own workers. What was read from a file is never unpickled: None. So is what cannot be
    made again here, which gets a notice: the run has its result all the same.
    """
    if _is_former(value):
        value = [PICKLED, value[_FORMER]]
    if not isinstance(value, list) or len(value) != 2 or value[0] != PICKLED:
        return _metrics.decoded(value)
    try:
        return pickle.loads(base64.b64decode(value[1])) if trusted else None
    except BaseException as error:  # of the value's own class
        _notices.give_once(f"Result.return_value is None, since unpickling it fails: {type(error).__name__}: {text_of(error)}")
        return None


def _in_order(plain):
    """With dicts as lists where JSON's objects, whose members are sorted in the core, would lose the order."""
    if isinstance(plain, list):
        return [_in_order(part) for part in plain]
    if not isinstance(plain, dict):
        return plain
    parts = {name: _in_order(part) for name, part in plain.items()}
    is_object = list(parts) == sorted(parts) and not _is_former(parts)
    return parts if is_object else ["$dict", *itertools.chain.from_iterable(parts.items())]


def _is_former(value):
    return isinstance(value, dict) and value.keys() == {_FORMER}


def _is_plain(value, depth=0):
    if type(value) is int:
        return _metrics.is_json_integer(value)
    if type(value) in (list, dict) and depth == _DEEPEST:
        return False
    if type(value) is list:
        return all(_is_plain(part, depth + 1) for part in value)
    if type(value) is dict:
        return all(type(key) is str and _metrics.is_text(key) and _is_plain(part, depth + 1) for key, part in value.items())
    return type(value) in (type(None), bool, float, str)


class _Pickler(cloudpickle.Pickler):
    def reducer_override(self, value):
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.Tensor):
            here = value if value.is_leaf else value.detach()
            return (here if here.device.type in ("cpu", "meta") else here.cpu()).__reduce_ex__(pickle.HIGHEST_PROTOCOL)
        return super().reducer_override(value)
