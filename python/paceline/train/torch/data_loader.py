"""prepare_data_loader: each worker gets its share of the data, on its device."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Iterator, Optional

import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
)

from paceline._native import native
from paceline.train.context import inside
from paceline.train.torch import reproducibility
from paceline.train.torch.device import get_device


def prepare_data_loader(
    data_loader: DataLoader,
    add_dist_sampler: bool = True,
    move_to_device: bool = True,
    auto_transfer: bool = True,
) -> DataLoader:
    """Returns a loader like the given one for this worker's share of the data, on this worker's device.

    The loader keeps everything that the given one was made with (prefetch_factor, persistent_workers, batch_sampler,
    …). Each pass shuffles the data anew; ``sampler.set_epoch(epoch)`` is only needed to determine the order.

    Args:
        data_loader: A loader of the whole dataset.
        add_dist_sampler: Whether to split the data among the workers. A DistributedSampler that the loader has already
            is kept, and so is the loader of an IterableDataset. Another sampler is replaced, with a warning.
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
    if shared and world_size > 1 and not isinstance(data_loader.sampler, DistributedSampler):
        arguments.update(_share(data_loader, rank, world_size))
    reproducibility.add_seeds(arguments)
    device = get_device() if move_to_device else None
    loader = _PreparedDataLoader(device, auto_transfer, **arguments)
    _answer_set_epoch(loader, shuffled_here=world_size == 1)
    return loader


def _answer_set_epoch(loader: DataLoader, shuffled_here: bool) -> None:
    """Scripts call sampler.set_epoch() whatever the number of workers. In a group of one, too, it decides the order of a
    loader that shuffles, unless that has a generator of the script's own."""
    sampler = loader.sampler
    decides = shuffled_here and isinstance(sampler, RandomSampler) and sampler.generator is None

    def set_epoch(epoch: int) -> None:
        if decides:
            sampler.generator = torch.Generator().manual_seed(epoch)

    for one in (sampler, loader.batch_sampler):
        if one is not None and not hasattr(one, "set_epoch"):
            one.set_epoch = set_epoch


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
        return {"batch_sampler": _DistributedBatchSampler(loader.batch_sampler, rank, world_size)}
    if not isinstance(loader.sampler, (RandomSampler, SequentialSampler)) and rank == 0:
        print(
            f"paceline: prepare_data_loader() has put a DistributedSampler in the place of the loader's "
            f"{type(loader.sampler).__name__}; with add_dist_sampler=False it stays, and each worker sees all that it gives"
        )
    shuffle = not isinstance(loader.sampler, SequentialSampler)
    return {"sampler": _EpochSampler(loader.dataset, num_replicas=world_size, rank=rank, shuffle=shuffle)}


class _EpochSampler(DistributedSampler):
    """A DistributedSampler that counts the epochs itself where the script does not."""

    _is_set = True  # epoch 0 is

    def set_epoch(self, epoch: int) -> None:
        super().set_epoch(epoch)
        self._is_set = True

    def __iter__(self):
        if not self._is_set:
            self.epoch += 1
        self._is_set = False
        return super().__iter__()


class _DistributedBatchSampler(Sampler):
    """Every world_size-th batch of the user's own batch sampler, which must give the same order on every rank."""

    def __init__(self, batches: BatchSampler, rank: int, world_size: int):
        self.batches = batches
        self.rank = rank
        self.world_size = world_size

    def set_epoch(self, epoch: int) -> None:
        for sampler in (self.batches, getattr(self.batches, "sampler", None)):
            if (set_epoch := getattr(sampler, "set_epoch", None)) is not None:
                set_epoch(epoch)

    def __len__(self) -> int:
        return -(-len(self.batches) // self.world_size)

    def __iter__(self) -> Iterator:
        first: list = []
        turn, own = 0, None
        for batch in self.batches:
            if len(first) < self.world_size:
                first.append(batch)
            if turn == self.rank:
                own = batch
            turn += 1
            if turn == self.world_size:
                yield own
                turn, own = 0, None
        if turn:  # all ranks have equally many: those without a batch get one of the first again
            yield own if own is not None else first[(self.rank - turn) % len(first)]


class _PreparedDataLoader(DataLoader):
    def __init__(self, device: Optional[torch.device], auto_transfer: bool, **arguments):
        self._device = device
        self._auto_transfer = auto_transfer
        super().__init__(**arguments)

    def __iter__(self):
        return self._told(self._moved(super().__iter__()))

    @staticmethod
    def _told(batches):
        """The session sees steps and waiting, and ends the loop when the run is being stopped."""
        session = native.Loader()
        batches = iter(batches)
        while True:
            session.before_batch()
            batch = next(batches, _END)
            if batch is _END:
                session.after_last_batch()
                return
            session.after_batch()
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
