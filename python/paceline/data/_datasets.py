"""The datasets of a trainer, in its workers: what get_dataset_shard() returns."""

import pickle
from typing import Any, Callable, Dict, Optional

from paceline._native import native
from paceline.data import _plans, _processes
from paceline.data.context import DataContext
from paceline.data.iterator import DataIterator
from paceline.train._exceptions import RemoteTraceback

_shards: Dict[str, DataIterator] = {}
_resume: Dict[str, bool] = {}  # of those that nobody has asked for yet: whether they go on where they were


class Datasets:
    """A trainer's datasets. They travel to the workers, which know what there is, and to the data process, which reads."""

    made: Dict[str, Any]  # once it is known that they are needed
    options: Dict[str, Any]  # how each is read, in the data process

    def __init__(self, datasets: Dict[str, Any], data_config: Any):
        self.datasets, self.data_config = datasets, data_config
        if missing := [name for name in data_config._split_names() if name not in datasets]:
            raise ValueError(f"DataConfig.datasets_to_split names {missing}; the trainer's datasets are {list(datasets)}")

    def make(self) -> None:
        """Calls the functions among them, once, in the driver: all processes are to have the same dataset.

        Raises:
            StorageError: Where a path that one reads does not exist.
        """
        self.made = {name: one if hasattr(one, "streaming_split") else one() for name, one in self.datasets.items()}
        for name, dataset in self.made.items():
            native.check_paths(dataset._plan, whose=f"datasets[{name!r}]")

    def service(self) -> "_Service":
        return _Service(self.made, self.options)

    def __getstate__(self):
        # Of the driver, as the datasets are.
        usual = DataContext.get_current().execution_options
        options = {name: self.data_config._execution_options_of(name) or usual for name in self.datasets}
        return {"made": self.made, "data_config": self.data_config, "options": options}


class _Service:
    """What a data process serves (PythonProgram::data_service)."""

    def __init__(self, datasets: Dict[str, Any], options: Dict[str, Any]):
        self.datasets, self.options = datasets, options
        # One process reads them all: datasets with options of their own add theirs, and the others share what they have.
        limits = [one._limits(readers=1) for one in {id(one): one for one in options.values()}.values()]
        # Those that wait for processes of functions do not read meanwhile.
        own = sum(_processes.compute_of(function).processes or 0 for function in self._functions(*datasets))
        self.threads = max(one["threads"] for one in limits) + own
        self.read_ahead_bytes = sum(one["read_ahead_bytes"] for one in limits)

    def open(self, name: str) -> Any:
        if self.options[name].functions == "processes":
            _processes.start(self._functions(name), self.options[name])
        return self.datasets[name]._reader

    def _functions(self, *names):
        return [function for name in names for function in _plans.functions(self.datasets[name]._plan)]


class WithDatasets:
    """A train loop with the datasets of its trainer; it travels to the workers."""

    def __init__(self, loop: Callable[[], Any], datasets: Datasets):
        self.loop, self.datasets = loop, datasets

    def __call__(self) -> Any:
        from paceline.train import get_context

        context = get_context()
        client = native.data_client(_restored)  # None: this process reads for itself
        config = self.datasets.data_config
        _shards.clear()
        _resume.clear()
        for name, dataset in self.datasets.made.items():
            is_split = config._splits(name)
            rank, size = (context.get_world_rank(), context.get_world_size()) if is_split else (0, 1)
            equal: Any = config._equal_of(name) if is_split else "uneven"
            reader = client.reader(name) if client else None
            _shards[name] = DataIterator(dataset, rank, size, equal, context.get_local_world_size(), reader,
                                         in_train_loop=True)
            _resume[name] = config._resume
        try:
            return self.loop()
        finally:
            _shards.clear()


def _restored(serialized: bytes) -> Optional[BaseException]:
    """The exception that a function has raised in the data process."""
    error, traceback = pickle.loads(serialized)
    if not isinstance(error, BaseException):
        return None
    set_cause: Any = getattr(BaseException, "__cause__")
    set_cause.__set__(error, RemoteTraceback(traceback))  # its class may be frozen
    return error


def shard(name: Optional[str]) -> DataIterator:
    """KeyError for a name that the trainer was not given."""
    if name is None and len(_shards) == 1:
        name = next(iter(_shards))
    if name in _shards:
        if name in _resume:
            native.add_dataset_shard(name, _shards[name]._epochs, _resume.pop(name))
        return _shards[name]
    there = ", ".join(map(repr, _shards)) or "none (datasets=…)"
    raise KeyError(f"the trainer has no dataset {name!r}; it was given {there}")


def worker_device():
    """Of the worker; None outside a train loop, and where it has no accelerator."""
    if not _shards:
        return None
    from paceline.train.torch import get_device

    return get_device()
