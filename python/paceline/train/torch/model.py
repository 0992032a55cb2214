"""prepare_model: a model that trains on this worker's device, together with the other ranks."""

from typing import Any, Dict, Optional, Union

import torch

from paceline._native import native
from paceline.train.context import inside
from paceline.train.torch import agreement, amp
from paceline.train.torch.device import get_device


def prepare_model(
    model: torch.nn.Module,
    move_to_device: Union[bool, torch.device] = True,
    parallel_strategy: Optional[str] = "ddp",
    parallel_strategy_kwargs: Optional[Dict[str, Any]] = None,
) -> torch.nn.Module:
    """Moves the model to this worker's device and makes it train with the other ranks.

    ``model.module`` is the model itself, whatever the strategy and the number of workers.

    Args:
        model: The model, the same on every rank.
        move_to_device: Whether to move it, or where to.
        parallel_strategy: ``"ddp"``: every rank has the whole model. ``"fsdp"``: each rank has its shard of every
            parameter (FSDP2, ``fully_shard``). ``"none"`` or None: each rank trains a model of its own.
        parallel_strategy_kwargs: Arguments of DistributedDataParallel, or of ``fully_shard``; arguments of FSDP1 work
            too if they can be translated.

    Returns:
        The model to train: wrapped by DistributedDataParallel, sharded, or in a group of one the model itself.

    Raises:
        RuntimeError: Outside a train loop.
        CollectiveError: If the ranks' models differ; names the first parameter that does.
        ValueError: For another strategy, and for arguments of FSDP1 that FSDP2 does not have; names each of them.

    Example:
        >>> model = prepare_model(torchvision.models.resnet18())
        >>> model = prepare_model(model, parallel_strategy="fsdp",
        ...                       parallel_strategy_kwargs={"reshard_after_forward": False})
    """
    context = inside("prepare_model")
    if parallel_strategy not in (None, False, "", "none", "ddp", "fsdp"):
        raise ValueError(f"prepare_model(parallel_strategy={parallel_strategy!r}); allowed: 'ddp', 'fsdp' or 'none'")
    device = move_to_device if isinstance(move_to_device, torch.device) else get_device()
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if move_to_device:
        model = model.to(device)
    model = amp.autocast(model)
    if parallel_strategy != "fsdp":  # whose gradients come in shards
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                native.watch_gradient(name, parameter)
    kwargs = dict(parallel_strategy_kwargs or {})
    if parallel_strategy == "fsdp":
        from paceline.train.torch import fsdp

        return _with_module(fsdp.shard(model, device, kwargs) if context.get_world_size() > 1 else model)
    if parallel_strategy != "ddp" or context.get_world_size() == 1:
        return _with_module(model)
    if device.type != "cpu":
        kwargs = {"device_ids": [device], "output_device": device, **kwargs}
    if kwargs.get("device_mesh") is None:
        agreement.check_models(model, kwargs.get("process_group"))
    model = torch.nn.parallel.DistributedDataParallel(model, **kwargs)
    if every := native.check_ranks_every():
        agreement.check_ranks(model, every)
    return model


def _with_module(model):
    """Past nn.Module, for which a submodule `module` would be one more in the state dict."""
    if not hasattr(model, "module"):
        object.__setattr__(model, "module", model)
    return model
