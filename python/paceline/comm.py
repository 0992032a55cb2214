"""The backend "paceline" of torch.distributed: collectives of tensors of the CPU through shared memory.

Importing this module registers it. Workers of a trainer have it without that, by
``TorchConfig(backend="paceline")`` or ``"cpu:paceline,cuda:nccl"``; other programs write::

    import paceline.comm
    torch.distributed.init_process_group("paceline")

Between machines values go over Gloo, from the first rank of each; where no rank shares memory with another the group
is Gloo's. Sparse tensors go through a group of Gloo's in any case. Buckets of ``DistributedDataParallel`` are reduced
where they are, without a copy, where the environment has ``DDP_DISABLE_COMM_MEM=0`` before torch is imported, as it is
in workers.
"""

import os

import torch.distributed as dist

from paceline._native import native
from paceline.train.torch._gloo import counts

__all__ = []


def _make(options):
    interfaces = list(filter(None, os.environ.get("GLOO_SOCKET_IFNAME", "").split(",")))
    size = options.group_size
    return native.make_shared_memory(
        options.store, options.group_rank, size, options.timeout, interfaces, counted=counts(size)
    )


def _register():
    if "paceline" in dist.Backend.backend_list:
        return
    dist.Backend.register_backend("paceline", lambda options, *_: _make(options), extended_api=True, devices=["cpu"])
    name_of = dist.ProcessGroup._get_backend_name

    # Only torch's sharded tensors ask (FSDP1), whether a rank without shards has its tensors on the CPU: "gloo" is yes.
    def name_for_sharded_tensors(group):
        name = name_of(group)
        return "gloo" if name == "custom" and dist.get_backend(group) == "paceline" else name

    dist.ProcessGroup._get_backend_name = name_for_sharded_tensors


_register()
