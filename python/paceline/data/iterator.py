"""DataIterator: a dataset's rows, epoch after epoch, in batches for one rank."""

import functools
import operator
from typing import Any, Callable, Dict, Iterable, Iterator, List, Literal, Optional, Union

from paceline._native import native
from paceline.data import _blocks, _plans, _processes, _torch
from paceline.data.context import DataContext

Equal = Literal["drop", "pad", "repeat", "uneven"]

_LAST_EPOCH = 2**53 - 1  # far enough from the end of int64 that others can still follow


class DataIterator:
    """One rank's rows of a dataset. Each iteration of what it returns is an epoch, the next one, also after a break.

    Batches are slices of global batches: in each step the ranks together get the next ``batch_size * world_size`` rows
    of the dataset's order. So a stored state goes on with the very next row, with any number of ranks.

    Not made by users: ``Dataset.iterator()`` and ``paceline.train.get_dataset_shard()`` return one.
    """

    def __init__(self, dataset, rank: int = 0, world_size: int = 1, equal: Equal = "uneven", readers: int = 1,
                 reader: Any = None, in_train_loop: bool = False, here: bool = False, once: bool = False):
        self._dataset, self._rank, self._world_size, self._equal = dataset, rank, world_size, equal
        self._readers = readers  # on this machine, which share its cores
        self._is_served = reader is not None  # by the node's data process
        self._once = once  # whether a second epoch is not likely
        self._here = here  # whether functions are called by this thread that have no processes and want no GPU
        if reader is not None:
            self._reader = reader
        self._in_train_loop = in_train_loop  # of which each batch is a step

    @functools.cached_property
    def _reader(self):
        return self._dataset._reader

    @functools.cached_property
    def _epochs(self):
        return native.DataEpochs(self._reader, self._rank, self._world_size, self._equal)

    @functools.cached_property
    def _functions(self):
        return [] if self._is_served else list(_plans.functions(self._dataset._plan))

    def __repr__(self) -> str:
        return f"DataIterator(rank {self._rank} of {self._world_size}, {self._dataset})"

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
            prefetch_batches: How many are prepared ahead; of small ones more. They come in the same order for any number.
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
            ValueError: Where dtypes makes whole numbers or truth values of a column with nulls or NaN.

        Tensors of rows in memory and of cache() are copies: what is written there, later epochs do not see. Others may
        share memory with what was read, and with one another where columns are the same: write to a clone().
        """
        if collate_fn is not None and dtypes is not None:
            raise ValueError("collate_fn and dtypes exclude each other: the function gives the tensors' types")
        options = self._options(prefetch_batches, batch_size, drop_last, local_shuffle_buffer_size, local_shuffle_seed)
        place = _device(device)
        stays = not self._is_served and _plans.keeps_blocks(self._dataset._plan)  # what is written there, epochs after see

        def convert(batches):
            if collate_fn is None:
                batch = batches.next_tensors()
                if batch is None:
                    return None
                batch = _torch.owned(batch) if stays else batch
                return _torch.placed(_torch.typed(batch, dtypes), place, pin_memory)
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
            collate_fn=_torch.TensorsOf(_torch.columns_of_pairs(label_column, feature_columns)) if feature_columns else None,
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
        return self._reader.stats()

    def materialize(self):
        """The whole dataset, with its rows in memory."""
        return self._dataset.materialize()

    def __len__(self) -> int:
        """This rank's rows of an epoch. TypeError where they are not known before they are read (a filter)."""
        rows = self._epochs.rows()
        if rows is None:
            raise TypeError("the number of rows is not known before they are read (a filter, or a function that may "
                            "give more or fewer); count() reads them")
        return rows

    # Where it is

    def set_epoch(self, epoch: int) -> None:
        """The next iteration is this epoch, from its beginning; if a state from its middle was loaded, from there.

        Raises:
            ValueError: For a number below 0 or from 2**53 on, and for what is no whole number.
        """
        number = _whole("epoch", epoch)
        if not 0 <= number <= _LAST_EPOCH:
            raise ValueError(f"epoch is {epoch!r}; allowed: a whole number from 0 to {_LAST_EPOCH}")
        self._epochs.set_epoch(number)

    def skip(self, rows: int) -> None:
        """The next iteration passes over the next rows of the epoch: of all ranks together.

        Raises:
            ValueError: For a number below 0, and for what is no whole number.
        """
        self._epochs.skip(_whole("rows", rows))

    def void_step(self) -> None:
        """Makes the step void that runs: its batch is given once more, and is not done in state_dict() and checkpoints.
        Call it on every worker of a train loop, in the place of ``optimizer.step()``."""
        if not self._in_train_loop:
            raise RuntimeError("void_step() is for datasets of a train loop, which get_dataset_shard() returns")
        native.void_step()

    def state_dict(self) -> Dict[str, Any]:
        """Where the next batch begins: a few numbers, the same on every rank after the same step."""
        return self._epochs.state()

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Goes on where state_dict() was called.

        Raises:
            ValueError: For a state of another dataset: other files, or other steps.
        """
        self._epochs.load_state(state)

    def _options(self, prefetch_batches, batch_size, drop_last, buffer, seed):
        options = {"batch_size": batch_size, "prefetch_batches": prefetch_batches, "local_shuffle_buffer_size": buffer,
                   "local_shuffle_seed": seed}
        for name, value in options.items():
            if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
                raise ValueError(f"{name} is {value!r}; allowed: a whole number")
        native.DataEpochOptions(**options)  # ValueError for numbers that are not allowed
        return {**options, "drop_last": bool(drop_last)}

    def _limits(self, options):
        """`options` with what reading may use. Functions have their processes from here on, unless they have none."""
        execution = DataContext.get_current().execution_options
        options = {**options, **execution._limits(self._readers), "begins_next": not self._once}
        functions = self._functions
        if not functions:
            return options
        stays_here = self._here and not any(_processes.compute_of(function).gpus for function in functions)
        if not stays_here and execution.functions == "processes":
            _processes.start(functions, execution, self._readers)
        if any(function.pool is None for function in functions):
            # What they draw of the process's generators must not mix with what this thread draws: it calls them itself.
            return {**options, "threads": 0, "prefetch_batches": 0}
        # Each process is to have a block, and others are read meanwhile.
        busy = sum(pool.size for pool in {function.pool for function in functions})
        return {**options, "threads": max(options["threads"], busy + bool(busy))}


class _Epochs:
    """What iter_batches() returns: it can be iterated again, and is the next epoch then."""

    def __init__(self, iterator: DataIterator, options: Dict[str, Any], convert: Callable[[Any], Any]):
        self._iterator, self._options, self._convert = iterator, options, convert
        self._limits: Dict[str, Any] = {}  # those that _native_options has

    def __iter__(self) -> Iterator[Any]:
        limits = self._iterator._limits(self._options)
        if limits != self._limits:  # the gap between epochs is shorter where they need not be read again
            self._limits, self._native_options = limits, native.DataEpochOptions(**limits)
        batches = self._iterator._epochs.begin(self._native_options, self._iterator._in_train_loop)
        while (batch := self._convert(batches)) is not None:
            yield batch


class _Rows:
    def __init__(self, epochs: _Epochs):
        self._epochs = epochs

    def __iter__(self) -> Iterator[Dict[str, Any]]:
        for block in self._epochs:
            yield from _blocks.to_rows(block)


def _whole(name, value):
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ValueError(f"{name} is {value!r}; allowed: a whole number")
    return operator.index(value)


def _device(device):
    import torch

    if device != "auto":
        return torch.device(device) if device is not None else None
    from paceline.data import _datasets

    return _datasets.worker_device()


DatasetIterator = DataIterator  # Ray's older name
