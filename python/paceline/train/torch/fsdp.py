"""Fully sharded models: FSDP2's fully_shard, which also takes what scripts give to FSDP1.

Sources: torch/distributed/fsdp/_fully_shard/_fully_shard.py; FullyShardedDataParallel.__init__ in
torch/distributed/fsdp/fully_sharded_data_parallel.py.
"""

from typing import Any, Dict

import torch
import torch.distributed as dist
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard

from paceline import _options

_FSDP2 = ("mesh", "reshard_after_forward", "shard_placement_fn", "mp_policy", "offload_policy", "ignored_params")


def shard(model: torch.nn.Module, device: torch.device, kwargs: Dict[str, Any]) -> torch.nn.Module:
    """Shards `model` in place over all ranks. ValueError naming arguments that cannot be translated."""
    policy = kwargs.pop("auto_wrap_policy", None)
    synchronise = kwargs.pop("sync_module_states", False)
    settings = _translated(model, kwargs)
    if "mesh" not in settings:
        settings["mesh"] = dist.init_device_mesh(device.type, (dist.get_world_size(),))
    if synchronise:
        for tensor in (*model.parameters(), *model.buffers()):
            dist.broadcast(tensor.detach(), src=0)
    for part in (*_parts(model, policy), model):
        fully_shard(part, **settings)
        if device.type == "cpu":  # its backend may have memory that ranks share; holds for the part's own parameters
            part.set_allocate_memory_from_process_group_for_comm(True)
    return model


def _translated(model, kwargs) -> Dict[str, Any]:
    settings = {name: kwargs.pop(name) for name in _FSDP2 if name in kwargs}
    _options.note("fully_shard", kwargs)
    for name in _options.NO_EFFECT["fully_shard"]:
        kwargs.pop(name, None)
    if (strategy := kwargs.pop("sharding_strategy", None)) is not None:
        settings["reshard_after_forward"] = _reshards(strategy)
    if (mixed := kwargs.pop("mixed_precision", None)) is not None:
        settings["mp_policy"] = _precision(mixed)
    offload = kwargs.pop("cpu_offload", None)
    if offload is not None and (offload is True or getattr(offload, "offload_params", False)):
        settings["offload_policy"] = CPUOffloadPolicy(pin_memory=torch.cuda.is_available())
    ignored = set(kwargs.pop("ignored_states", None) or ())
    ignored |= set(kwargs.pop("ignored_parameters", None) or ())
    for module in kwargs.pop("ignored_modules", None) or ():
        ignored |= set(module.parameters())
    if ignored:
        settings["ignored_params"] = ignored
    if (mesh := kwargs.pop("device_mesh", None)) is not None:
        settings["mesh"] = mesh
    if (group := kwargs.pop("process_group", None)) is not None:
        device_type = next(model.parameters()).device.type
        settings["mesh"] = torch.distributed.device_mesh.DeviceMesh.from_group(group, device_type)
    if kwargs:
        raise ValueError(
            "prepare_model(parallel_strategy='fsdp') cannot translate parallel_strategy_kwargs "
            f"{', '.join(sorted(kwargs))}; models are sharded by FSDP2, which takes {', '.join(_FSDP2)}"
        )
    return settings


def _reshards(strategy) -> bool:
    name = getattr(strategy, "name", str(strategy))
    if name == "FULL_SHARD":
        return True
    if name == "SHARD_GRAD_OP":
        return False
    raise ValueError(
        f"prepare_model(parallel_strategy='fsdp') cannot translate sharding_strategy={name}; for NO_SHARD use "
        "parallel_strategy='ddp', for the hybrid strategies give FSDP2's mesh: a DeviceMesh of two dimensions"
    )


def _precision(mixed) -> MixedPrecisionPolicy:
    if isinstance(mixed, MixedPrecisionPolicy):
        return mixed
    buffers = getattr(mixed, "buffer_dtype", None)
    if buffers is not None and buffers != mixed.param_dtype:
        raise ValueError(
            "prepare_model(parallel_strategy='fsdp') cannot translate mixed_precision.buffer_dtype: FSDP2 leaves buffers "
            "as they are; convert them yourself, before"
        )
    return MixedPrecisionPolicy(
        param_dtype=mixed.param_dtype,
        reduce_dtype=mixed.reduce_dtype,
        cast_forward_inputs=getattr(mixed, "cast_forward_inputs", True),
    )


def _parts(model, policy):
    """The submodules that FSDP1's policy would wrap, innermost first."""
    if policy is None:
        return []
    if isinstance(policy, (set, frozenset, list, tuple)):
        return [part for part in _inner_first(model) if isinstance(part, tuple(policy))]
    if hasattr(policy, "_run_policy"):
        chosen = policy._run_policy(model, ignored_modules=set(), root_kwargs={})
        return [part for part in _inner_first(model) if part in chosen]
    parts, wrapped = [], set()
    for part in _inner_first(model):
        parameters = {id(one): one for one in part.parameters()}
        left = sum(one.numel() for key, one in parameters.items() if key not in wrapped)
        if left and policy(module=part, recurse=False, nonwrapped_numel=left):
            parts.append(part)
            wrapped |= parameters.keys()
    return parts


def _inner_first(model):
    return [part for part in reversed(list(model.modules())) if part is not model]
