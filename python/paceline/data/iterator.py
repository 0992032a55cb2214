"""DataIterator: a dataset's rows, epoch after epoch, in batches for one rank."""

import functools
from typing import Any, Callable, Dict, Iterable, Iterator, List, Literal, Optional, Union

from paceline._native import native
from paceline.data import _blocks, _torch
from paceline.data.context import DataContext

Equal = Literal["drop", "pad", "repeat", "uneven"]
_START = {"rows": 0, "window": 0, "row": 0, "buffer_rows": 0, "buffer": 0, "done": 0}
_VERSION = 1


class DataIterator:
    """One rank's rows of a dataset. Each iteration of what it returns is an epoch, the next one, also after a break.

    Batches are slices of global batches: in each step the ranks together get the next ``batch_size * world_size`` rows
    of the dataset's order. So a stored state goes on with the very next row, with any number of ranks.

    Not made by users: ``Dataset.iterator()`` and ``paceline.train.get_dataset_shard()`` return one.
    """

    def __init__(self, dataset, rank: int = 0, world_size: int = 1, equal: Equal = "uneven", readers: int = 1,
                 reader: Any = None):
        self._dataset, self._rank, self._world_size, self._equal = dataset, rank, world_size, equal
        self._readers = readers  # on this machine, which share its cores
        self._is_served = reader is not None  # by the node's data process
        if reader is not None:
            self._reader = reader
        self._begin(0, _START)

    @functools.cached_property
    def _reader(self):
        return self._dataset._reader

    def _begin(self, epoch: int, state: Dict[str, int]) -> None:
        self._epoch, self._state = epoch, dict(state)  # how far it is
        self._next = epoch, dict(state)  # what the next iteration begins with

    def __repr__(self) -> str:
        return f"DataIterator(rank {self._rank} of {self._world_size}, epoch {self._epoch}, {self._dataset})"

    # What is read

    def iter_batches(
        self,
        *,
        prefetch_batches: int = 1,
        batch_size: Optional[int] = 256,
        batch_format: Optional[str] = "default",
        drop_last: bool = False,
        local_shuffle_buffer_size: Optional[int] = None,
        local_shuffle_seed: Optional[int] = None,
    ) -> Iterable[Any]:
        """Batches of this rank, one epoch an iteration.

        Args:
            prefetch_batches: How many are prepared ahead. They come in the same order for any number.
            batch_size: Rows; None for whole blocks.
            batch_format: "numpy" ("default"): a dict of arrays, which are read-only where they need no copy; "pandas": a
                DataFrame; "pyarrow": a Table.
            drop_last: Whether a last batch of fewer rows is left out.
            local_shuffle_buffer_size: Rows are mixed once more, at least so many at a time; needs a batch_size.
            local_shuffle_seed: Of that; each epoch has another order. None is 0.

        Raises:
            ValueError: For numbers that are not allowed.
        """
        _blocks.check_format(batch_format)
        options = self._options(prefetch_batches, batch_size, drop_last, local_shuffle_buffer_size, local_shuffle_seed)

        def convert(batches):
            block = batches.next()
            return None if block is None else _blocks.to_format(block, batch_format)

        return _Epochs(self, options, convert)

    def iter_torch_batches(
        self,
        *,
        prefetch_batches: int = 1,
        batch_size: Optional[int] = 256,
        dtypes: Union[None, Any, Dict[str, Any]] = None,
        device: Union[str, Any] = "auto",
        collate_fn: Optional[Callable[[Any], Any]] = None,
        drop_last: bool = False,
        local_shuffle_buffer_size: Optional[int] = None,
        local_shuffle_seed: Optional[int] = None,
        pin_memory: bool = False,
    ) -> Iterable[Any]:
        """Batches as dicts of tensors, one epoch an iteration. See iter_batches() for the other arguments.

        Args:
            dtypes: A torch dtype for all columns, or one for each column of a dict.
            device: Where the tensors are to be; "auto": the device of this worker, outside a train loop the CPU.
            collate_fn: Makes the batch of a dict of numpy arrays instead; not with dtypes. One of
                paceline.data.collate_fn's classes, or an object with ``batch_format = "pyarrow"`` or "pandas", gets that.
            pin_memory: Whether tensors are copied to pinned memory on their way to a GPU.

        Raises:
            TypeError: For a column that cannot be a tensor, such as texts, when its batch is due.

        Tensors that needed no copy share memory with the dataset: write to a clone().
        """
        if collate_fn is not None and dtypes is not None:
            raise ValueError("collate_fn and dtypes exclude each other: the function gives the tensors' types")
        options = self._options(prefetch_batches, batch_size, drop_last, local_shuffle_buffer_size, local_shuffle_seed)
        place = _device(device)

        def convert(batches):
            if collate_fn is None:
                batch = batches.next_tensors()
                return None if batch is None else _torch.placed(_torch.typed(batch, dtypes), place, pin_memory)
            block = batches.next()
            if block is None:
                return None
            batch = _blocks.to_format(block, getattr(collate_fn, "batch_format", "numpy"))
            return _torch.placed(collate_fn(batch), place, pin_memory)

        return _Epochs(self, options, convert)

    def iter_rows(self) -> Iterable[Dict[str, Any]]:
        """Rows as dicts, one epoch an iteration."""
        options = self._options(1, 256, False, None, None)
        return _Rows(_Epochs(self, options, lambda batches: batches.next()))

    def to_torch(
        self,
        *,
        label_column: Optional[str] = None,
        feature_columns: Union[None, List[str], List[List[str]], Dict[str, List[str]]] = None,
        label_column_dtype: Any = None,
        feature_column_dtypes: Any = None,
        batch_size: int = 1,
        prefetch_batches: int = 1,
        drop_last: bool = False,
        local_shuffle_buffer_size: Optional[int] = None,
        local_shuffle_seed: Optional[int] = None,
        unsqueeze_label_tensor: bool = True,
        unsqueeze_feature_tensors: bool = True,
    ) -> Any:
        """A torch.utils.data.IterableDataset of pairs of features and label. See iter_batches() for the other arguments.

        Args:
            label_column: The label, which is no feature; None: the label is None.
            feature_columns: A list: one tensor with a column for each; lists of lists, or a dict of lists: a tensor for
                each list. None: all columns but the label.
            label_column_dtype: A torch dtype.
            feature_column_dtypes: One, or one for each tensor, in the form of feature_columns.
            unsqueeze_label_tensor: Whether labels have the shape [rows, 1].
            unsqueeze_feature_tensors: Whether a single column has it.
        """
        batches = self.iter_torch_batches(
            batch_size=batch_size, prefetch_batches=prefetch_batches, drop_last=drop_last, device=None,
            local_shuffle_buffer_size=local_shuffle_buffer_size, local_shuffle_seed=local_shuffle_seed,
        )  # fmt: skip
        return _torch.pairs(batches, label_column, feature_columns, label_column_dtype, feature_column_dtypes,
                            unsqueeze_label_tensor, unsqueeze_feature_tensors)

    def get_context(self) -> DataContext:
        """How datasets are read in this process."""
        return DataContext.get_current()

    def schema(self):
        """The dataset's columns."""
        return self._reader.schema()

    def stats(self) -> str:
        """What has been read so far, step by step."""
        from paceline.data import _stats

        return _stats.text_of(self._reader.statistics())

    def materialize(self):
        """The whole dataset, with its rows in memory."""
        return self._dataset.materialize()

    def __len__(self) -> int:
        """This rank's rows of an epoch. TypeError where they are not known before they are read (a filter)."""
        facts = self._reader.facts()
        if not facts["counts_rows"]:
            raise TypeError("the number of rows is not known before they are read (a filter, or a function that may "
                            "give more or fewer); count() reads them")
        return native.steps_of(facts["rows"], 1, self._rank, self._world_size, self._equal, False)

    # Where it is

    def set_epoch(self, epoch: int) -> None:
        """The next iteration is this epoch, from its beginning."""
        self._begin(int(epoch), _START)

    def skip(self, rows: int) -> None:
        """The next iteration passes over the next rows of the epoch: of all ranks together."""
        epoch, state = self._next
        self._begin(epoch, self._reader.skipped(epoch, int(rows), state))

    def state_dict(self) -> Dict[str, Any]:
        """Where the next batch begins: a few numbers, the same on every rank after the same step."""
        facts = self._reader.facts()
        return {"version": _VERSION, "fingerprint": facts["fingerprint"], "seed": facts["seed"], "epoch": self._epoch,
                **self._state}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Goes on where state_dict() was called.

        Raises:
            ValueError: For a state of another dataset: other files, or other steps.
        """
        facts = self._reader.facts()
        if state.get("version") != _VERSION:
            raise ValueError(f"the state has version {state.get('version')!r}; this is {_VERSION}")
        for name in ("fingerprint", "seed"):
            if state[name] != facts[name]:
                raise ValueError(f"the state is of another dataset: its {name} is {state[name]}, here it is {facts[name]}. The "
                                 "same files, unchanged, and the same steps with the same seed are needed")
        self._begin(state["epoch"], {name: state[name] for name in _START})

    def _options(self, prefetch_batches, batch_size, drop_last, buffer, seed):
        for name, value in (("batch_size", batch_size), ("local_shuffle_buffer_size", buffer)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise ValueError(f"{name} is {value!r}; allowed: a number of rows from 1, or None")
        if isinstance(prefetch_batches, bool) or not isinstance(prefetch_batches, int) or prefetch_batches < 0:
            raise ValueError(f"prefetch_batches is {prefetch_batches!r}; allowed: a number from 0")
        if buffer is not None and batch_size is None:
            raise ValueError("local_shuffle_buffer_size needs a batch_size")
        if self._calls_functions():
            prefetch_batches = 0  # as _limits() says
        rows = max(buffer, batch_size) * self._world_size if buffer else 0
        return {"batch_size": batch_size or 0, "drop_last": bool(drop_last), "prefetch_batches": prefetch_batches,
                "local_shuffle_seed": int(seed or 0), "buffer_rows": rows}

    def _calls_functions(self):
        """Whether this process calls functions of Python to read."""
        return not self._is_served and self._dataset._has_functions()

    def _limits(self):
        limits = DataContext.get_current()._limits(self._readers)
        if self._calls_functions():
            # What they draw of the process's generators must not mix with what this thread draws: it calls them itself.
            limits["threads"] = 0
        return limits


class _Epochs:
    """What iter_batches() returns: it can be iterated again, and is the next epoch then."""

    def __init__(self, iterator: DataIterator, options: Dict[str, Any], convert: Callable[[Any], Any]):
        self._iterator, self._options, self._convert = iterator, options, convert

    def __iter__(self) -> Iterator[Any]:
        mine, options = self._iterator, dict(self._options)
        buffer_rows = options.pop("buffer_rows")
        epoch, state = mine._next
        mine._next = epoch + 1, dict(_START)
        if not state["done"]:  # otherwise a buffer is begun, whose size stays
            state["buffer_rows"] = buffer_rows
        batches = mine._reader.batches(
            epoch=epoch, rank=mine._rank, world_size=mine._world_size, equal=mine._equal, state=state, **options,
            **mine._limits()
        )
        while (batch := self._convert(batches)) is not None:
            mine._epoch, mine._state = epoch, batches.state()
            yield batch
        mine._epoch, mine._state = epoch + 1, dict(_START)


class _Rows:
    def __init__(self, epochs: _Epochs):
        self._epochs = epochs

    def __iter__(self) -> Iterator[Dict[str, Any]]:
        for block in self._epochs:
            yield from _blocks.to_rows(block)


def _device(device):
    import torch

    if device != "auto":
        return torch.device(device) if device is not None else None
    from paceline.data import _datasets

    return _datasets.worker_device()


DatasetIterator = DataIterator  # Ray's older name
