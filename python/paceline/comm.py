"""The backend "paceline" of torch.distributed: collectives of tensors of the CPU through shared memory.

Importing this module registers it. Workers of a trainer have it without that, as their default; other programs write::

    import paceline.comm
    torch.distributed.init_process_group("paceline")

Between machines values go over Gloo, from the first rank of each. Where a rank has no memory to share, since its
address space is limited for instance, the group is Gloo's, and a line says so. Sparse tensors go through a group of
Gloo's in any case. Buckets of ``DistributedDataParallel`` are reduced
where they are, without a copy, where the environment has ``DDP_DISABLE_COMM_MEM=0`` before torch is imported, as it is
in workers.
"""

import atexit
import datetime
import sys

import torch.distributed as dist

from paceline._native import native
from paceline.train.torch._watched_groups import place_of_group

__all__ = ["lost_ranks"]

_TIME_FOR_CALLBACKS = datetime.timedelta(seconds=10)


def lost_ranks(error: BaseException) -> list[int]:
    """The ranks for want of which a collective has failed.

    Args:
        error: What the collective has thrown: a ``torch.distributed.DistBackendError``.

    Returns:
        Ranks as the group counts them, in order: those that have ended, have left the group or did not come in time.
        Empty where nobody is missing, as where the ranks' calls differ.

    Example::

        try:
            torch.distributed.all_reduce(gradients)
        except torch.distributed.DistBackendError as error:
            left = sorted(set(range(world_size)) - set(paceline.comm.lost_ranks(error)))
    """
    return native.ranks_wanted_in(str(error))


def _make(options):
    return native.make_shared_memory(
        options.store, options.group_rank, options.group_size, options.timeout, **place_of_group(options.group_size)
    )


def _register():
    if "paceline" in dist.Backend.backend_list:
        return
    dist.Backend.register_backend("paceline", lambda options, *_: _make(options), extended_api=True, devices=["cpu"])
    name_of = dist.ProcessGroup._get_backend_name

    # Sharded tensors (FSDP1) ask whether a rank without shards has its tensors on the CPU: "gloo" is yes. To who else
    # asks, such as SyncBatchNorm, it would mean that there is no all_gather into one tensor.
    def name_for_sharded_tensors(group):
        name = name_of(group)
        asks = sys._getframe(1).f_globals.get("__name__", "")
        is_ours = name == "custom" and asks.startswith("torch.distributed._shard.")
        return "gloo" if is_ours and dist.get_backend(group) == "paceline" else name

    dist.ProcessGroup._get_backend_name = name_for_sharded_tensors
    atexit.register(_stop_callbacks)


def _stop_callbacks():
    if not native.stop_callbacks(_TIME_FOR_CALLBACKS):
        print(
            f"paceline: a callback of a collective's future still runs {_TIME_FOR_CALLBACKS.seconds} s after the end of the "
            "program, which does not wait any longer; Python may end with SIGABRT for it",
            file=sys.stderr,
            flush=True,
        )


_register()
