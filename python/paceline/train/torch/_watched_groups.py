"""torch.distributed's groups over Gloo and NCCL, watched: collectives are counted and end when the run is stopped, and those
of Gloo name rank and operation when they fail (paceline/comm/torch_distributed.h)."""

import datetime
import sys

import torch.distributed as dist
from torch.distributed import distributed_c10d

from paceline._native import native


def place_of_group(size):
    """Where a new group's collectives are counted: of the one group of all ranks they are compared between these; those of
    others are in the ledger. What torch checks calls with (TORCH_DISTRIBUTED_DEBUG=DETAIL) is counted nowhere."""
    if sys._getframe(2).f_code.co_name == "_create_process_group_wrapper":
        return {"counted": False}
    try:
        context = native.get_context()
    except native.UsageError:  # a program without a trainer
        return {"counted": False}
    counted = not dist.is_initialized() and size == context.get_world_size()
    return {"counted": counted, "rank_in_run": context.get_world_rank()}


class _Watched(type):
    """torch's class to all that look at it, but for what a call makes."""

    def __instancecheck__(cls, instance):
        return isinstance(instance, cls.original)

    def __getattr__(cls, name):
        return getattr(cls.original, name)


class _Gloo(_Watched):
    original = distributed_c10d.ProcessGroupGloo

    def __call__(cls, store, rank, size, *more, **named):
        timeout = more[0] if more else named.get("timeout", distributed_c10d.default_pg_timeout)
        if len(more) + len(named) > 1 or not isinstance(timeout, datetime.timedelta) or named.keys() - {"timeout"}:
            return cls.original(store, rank, size, *more, **named)  # with Options, of who chooses his own devices
        return native.make_gloo(store, rank, size, timeout, **place_of_group(size))


class _Nccl(_Watched):
    original = getattr(distributed_c10d, "ProcessGroupNCCL", None)

    def __call__(cls, store, rank, size, *more, **named):
        options = more[0] if more else named.get("options")
        if len(more) + len(named) > 1 or not isinstance(options, cls.original.Options):
            return cls.original(store, rank, size, *more, **named)
        return native.make_nccl(store, rank, size, options, **place_of_group(size))


class _ProcessGroupGloo(metaclass=_Gloo):
    pass


class _ProcessGroupNCCL(metaclass=_Nccl):
    pass


def watch() -> None:
    """From now on, groups of this process are watched."""
    distributed_c10d.ProcessGroupGloo = _ProcessGroupGloo
    if _Nccl.original is not None and native.has_backend("nccl"):
        distributed_c10d.ProcessGroupNCCL = _ProcessGroupNCCL
