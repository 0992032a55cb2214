"""Whether all ranks hold the same model, and with DebugConfig.check_ranks_every the same weights.

DistributedDataParallel takes the second for granted; of the first it says no more than how many parameters there are.
"""

import hashlib
import json

import torch
import torch.distributed as dist

from paceline._native import native


def check_models(model: torch.nn.Module, group=None) -> None:
    """CollectiveError names the first parameter or buffer in which a rank's model differs from rank 0's."""
    own = _described(model)
    if own is None:
        return
    text = json.dumps(own)
    if len(set(_of_all_ranks(hashlib.sha256(text.encode()).hexdigest(), group))) == 1:
        return
    difference = native.find_model_difference([json.loads(one) for one in _of_all_ranks(text, group)])
    raise native.CollectiveError(f"the ranks hold different models: {difference}; build the model alike on every rank")


def _described(model):
    """In the words of parallel/ddp/model_agreement.h; None for a model whose parameters have no shapes yet."""
    ignored = set(getattr(model, "_ddp_params_and_buffers_to_ignore", ()))
    described = []
    for kind, named in (("parameter", model.named_parameters()), ("buffer", model.named_buffers())):
        for name, tensor in named:
            if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
                return None  # DistributedDataParallel says what to do
            if name not in ignored:
                form = f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}{' trained' * tensor.requires_grad}"
                described.append({"what": f'{kind} "{name}"', "form": form})
    return described


def _of_all_ranks(text, group):
    texts = [""] * dist.get_world_size(group)
    dist.all_gather_object(texts, text, group=group)
    return texts


def check_ranks(model: torch.nn.parallel.DistributedDataParallel, every: int) -> None:
    """Compares the ranks' weights before every so many steps of `model`; CollectiveError names the first that differs."""
    steps = 0

    def begin_step():
        nonlocal steps
        if model._join_config.enable:  # inside join(), where a rank without data neither comes here nor steps
            return
        if not (model.training and torch.is_grad_enabled() and model.require_backward_grad_sync):
            return
        steps += 1
        if steps % every == 0:
            _compare(model, steps)

    model.register_forward_pre_hook(lambda *_: begin_step())


def _compare(model, step):
    named = list(model.module.named_parameters())
    sums = [_checksum(parameter) for _, parameter in named]
    own = torch.stack([checksum.to(sums[0].device) for checksum in sums])  # a module may be on several GPUs
    ranks = [torch.empty_like(own) for _ in range(dist.get_world_size(model.process_group))]
    dist.all_gather(ranks, own, group=model.process_group)
    differs = torch.stack(ranks).ne(ranks[0]).cpu()  # (ranks, parameters)
    if not differs.any():
        return
    place = int(differs.any(0).nonzero()[0])
    who = ", ".join(str(int(rank)) for rank in differs[:, place].nonzero())
    raise native.CollectiveError(
        f'the ranks hold different weights: "{named[place][0]}" on rank {who} is not rank 0\'s, before step {step} of the '
        "model. Something changes weights on some ranks only: an optimizer that not every rank steps, other learning "
        "rates, weights that are loaded or drawn after prepare_model()"
    )


def _checksum(tensor):
    integer = {1: torch.uint8, 2: torch.int16}.get(tensor.element_size(), torch.int32)
    return tensor.detach().contiguous().view(-1).view(integer).sum(dtype=torch.int64)
