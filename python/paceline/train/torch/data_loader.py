"""prepare_data_loader: each worker gets its share of the data, on its device."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Optional

import torch
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, RandomSampler, SequentialSampler

from paceline._native import native
from paceline.train.context import inside
from paceline.train.torch import reproducibility
from paceline.train.torch._sampling import CountsEpochs, DistributedBatchSampler, EpochSampler, PlainSampler
from paceline.train.torch.device import get_device


def prepare_data_loader(
    data_loader: DataLoader,
    add_dist_sampler: bool = True,
    move_to_device: bool = True,
    auto_transfer: bool = True,
) -> DataLoader:
    """Returns a loader like the given one for this worker's share of the data, on this worker's device.

    The loader keeps everything that the given one was made with (prefetch_factor, persistent_workers, batch_sampler,
    …). Each pass shuffles the data anew; ``sampler.set_epoch(epoch)`` is only needed to determine the order. A pass of
    which only one batch is taken does not count: the next one has its order again, so one rank may look at the data
    alone. If some ranks take more batches alone, call ``set_epoch`` before the next pass of all.

    Args:
        data_loader: A loader of the whole dataset.
        add_dist_sampler: Whether to split the data among the workers. A DistributedSampler that the loader has already
            is kept, and so is the loader of an IterableDataset. Another sampler is replaced, with a warning. The
            batches of a batch_sampler are split; if it keeps a generator of its own, every rank must make this call,
            and the order follows from rank 0's.
        move_to_device: Whether batches are moved to this worker's device, however nested they are.
        auto_transfer: Whether the next batch is copied to a GPU while the current one is used.

    Returns:
        A DataLoader with ``len``, ``sampler``, ``dataset`` and ``batch_size``; in a group of one its sampler is the
        given loader's.

    Raises:
        RuntimeError: Outside a train loop.
    """
    context = inside("prepare_data_loader")
    rank, world_size = context.get_world_rank(), context.get_world_size()
    arguments = _arguments(data_loader)
    shared = add_dist_sampler and not isinstance(data_loader.dataset, IterableDataset)
    if shared and world_size > 1 and not _is_distributed(data_loader):
        arguments.update(_share(data_loader, rank, world_size))
    for name in ("sampler", "batch_sampler"):
        if name in arguments and not _takes_attributes(arguments[name]):
            arguments[name] = PlainSampler(arguments[name])
    reproducibility.add_seeds(arguments)
    device = get_device() if move_to_device else None
    loader = _PreparedDataLoader(device, auto_transfer, **arguments)
    _answer_set_epoch(loader, shuffled_here=world_size == 1)
    return loader


def _answer_set_epoch(loader: DataLoader, shuffled_here: bool) -> None:
    """Scripts call sampler.set_epoch() or batch_sampler.set_epoch() whatever the number of workers, and whichever of them
    decides. In a group of one, too, it decides the order of a loader that shuffles, unless that has a generator of the
    script's own."""
    sampler = _sampler_of(loader)
    own = next((one.set_epoch for one in (loader.batch_sampler, sampler) if hasattr(one, "set_epoch")), None)
    decides = shuffled_here and isinstance(sampler, RandomSampler) and sampler.generator is None

    def set_epoch(epoch: int) -> None:
        if own is not None:
            own(epoch)
        elif decides:
            sampler.generator = torch.Generator().manual_seed(epoch)

    for one in (loader.sampler, loader.batch_sampler, sampler):
        if one is not None and not hasattr(one, "set_epoch") and _takes_attributes(one):
            one.set_epoch = set_epoch


def _takes_attributes(sampler: Any) -> bool:
    if hasattr(sampler, "set_epoch"):
        return True
    try:
        sampler.set_epoch = None
        del sampler.set_epoch
    except (AttributeError, TypeError):
        return False
    return True


def _sampler_of(loader: DataLoader) -> Any:
    """What decides the order of the rows, also below a batch sampler."""
    return getattr(loader.batch_sampler, "sampler", loader.sampler)


def _is_distributed(loader: DataLoader) -> bool:
    return any(isinstance(one, DistributedSampler) for one in (loader.batch_sampler, _sampler_of(loader)))


def _arguments(loader: DataLoader) -> dict:
    """What `loader` was made with."""
    arguments = {
        name: getattr(loader, name)
        for name in (
            "dataset",
            "num_workers",
            "collate_fn",
            "pin_memory",
            "timeout",
            "worker_init_fn",
            "multiprocessing_context",
            "generator",
            "persistent_workers",
            "pin_memory_device",
            "in_order",
        )
        if hasattr(loader, name)
    }
    if loader.num_workers > 0:
        arguments["prefetch_factor"] = loader.prefetch_factor
    if _has_own_batch_sampler(loader):
        arguments["batch_sampler"] = loader.batch_sampler
    else:
        arguments.update(batch_size=loader.batch_size, drop_last=loader.drop_last)
        if not isinstance(loader.dataset, IterableDataset):
            arguments["sampler"] = loader.sampler
    return arguments


def _has_own_batch_sampler(loader):
    return loader.batch_size is None and loader.batch_sampler is not None


def _share(loader, rank, world_size) -> dict:
    if _has_own_batch_sampler(loader):
        return {"batch_sampler": DistributedBatchSampler(loader.batch_sampler, rank, world_size)}
    if not isinstance(loader.sampler, (RandomSampler, SequentialSampler)) and rank == 0:
        print(
            f"paceline: prepare_data_loader() has put a DistributedSampler in the place of the loader's "
            f"{type(loader.sampler).__name__}; with add_dist_sampler=False it stays, and each worker sees all that it gives"
        )
    shuffle = not isinstance(loader.sampler, SequentialSampler)
    return {"sampler": EpochSampler(loader.dataset, num_replicas=world_size, rank=rank, shuffle=shuffle)}


class _PreparedDataLoader(DataLoader):
    def __init__(self, device: Optional[torch.device], auto_transfer: bool, **arguments):
        self._device = device
        self._auto_transfer = auto_transfer
        super().__init__(**arguments)

    def __iter__(self):
        return self._told(self._moved(super().__iter__()))

    def _told(self, batches):
        """The session sees steps and waiting, and ends the loop when the run is being stopped. The sampler sees whether the
        pass goes on after its first batch."""
        session = native.Loader()
        counting = next((one for one in (self.batch_sampler, self.sampler) if isinstance(one, CountsEpochs)), None)
        batches = iter(batches)
        taken, epoch = 0, None
        while True:
            if counting is not None and taken == 1:
                counting.second_batch(epoch)
            session.before_batch()
            batch = next(batches, _END)
            if batch is _END:
                session.after_last_batch()
                return
            session.after_batch()
            if counting is not None and taken == 0:
                epoch = counting.first_batch()
            taken += 1
            yield batch

    def _moved(self, batches):
        if self._device is None or self._device.type == "cpu":
            return batches
        return self._prefetched(batches) if self._auto_transfer else (_to(batch, self._device) for batch in batches)

    def _prefetched(self, batches):
        """One batch ahead, copied on a stream of its own."""
        copies = torch.cuda.Stream(self._device)

        def fetch():
            batch = next(batches, _END)
            if batch is _END:
                return _END
            with torch.cuda.stream(copies):
                return _to(batch, self._device)

        batches = iter(batches)
        following = fetch()
        while following is not _END:
            computing = torch.cuda.current_stream(self._device)
            computing.wait_stream(copies)
            batch = following
            _each_tensor(batch, lambda tensor: tensor.record_stream(computing))
            following = fetch()
            yield batch


_END = object()


def _to(value: Any, device: torch.device) -> Any:
    """`value` with all tensors in it on `device`."""
    return _map(value, lambda tensor: tensor.to(device, non_blocking=True))


def _each_tensor(value: Any, call) -> None:
    _map(value, lambda tensor: (call(tensor), tensor)[1])


def _map(value, convert):
    if isinstance(value, torch.Tensor):
        return convert(value)
    if isinstance(value, Mapping):
        parts = {key: _map(part, convert) for key, part in value.items()}
        try:
            return type(value)(parts)
        except TypeError:
            return parts
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_map(part, convert) for part in value))
    if isinstance(value, (list, tuple)):
        return type(value)(_map(part, convert) for part in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(
            value, **{field.name: _map(getattr(value, field.name), convert) for field in dataclasses.fields(value) if field.init}
        )
    return value
