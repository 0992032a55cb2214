"""DebugConfig.check_ranks_every: whether all ranks hold the same weights, which DistributedDataParallel takes for granted."""

import torch
import torch.distributed as dist

from paceline._native import native


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
