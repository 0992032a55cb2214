"""The datasets of a trainer, in its workers: what get_dataset_shard() returns."""

from typing import Any, Callable, Dict, Optional

from paceline.data.iterator import DataIterator

_shards: Dict[str, DataIterator] = {}


class WithDatasets:
    """A train loop with the datasets of its trainer; it travels to the workers."""

    def __init__(self, loop: Callable[[], Any], datasets: Dict[str, Any], data_config: Any):
        self.loop, self.datasets, self.data_config = loop, datasets, data_config

    def __call__(self) -> Any:
        from paceline.train import get_context

        context = get_context()
        _shards.clear()
        for name, dataset in _made(self.datasets).items():
            is_split = self.data_config._splits(name)
            rank, size = (context.get_world_rank(), context.get_world_size()) if is_split else (0, 1)
            equal: Any = self.data_config._equal if is_split else "uneven"
            _shards[name] = DataIterator(dataset, rank, size, equal, context.get_local_world_size())
        try:
            return self.loop()
        finally:
            _shards.clear()


    def __getstate__(self):
        # Functions are called here, once, in the driver: all workers are to have the same dataset.
        return {**self.__dict__, "datasets": _made(self.datasets)}


def _made(datasets):
    return {name: one if hasattr(one, "streaming_split") else one() for name, one in datasets.items()}


def shard(name: Optional[str]) -> DataIterator:
    """KeyError for a name that the trainer was not given."""
    if name is None and len(_shards) == 1:
        return next(iter(_shards.values()))
    if name in _shards:
        return _shards[name]
    there = ", ".join(map(repr, _shards)) or "none (datasets=…)"
    raise KeyError(f"the trainer has no dataset {name!r}; it was given {there}")


def worker_device():
    """Of the worker; None outside a train loop, and where it has no accelerator."""
    if not _shards:
        return None
    from paceline.train.torch import get_device

    return get_device()
