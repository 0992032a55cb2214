"""Functions of users as operators: what the engine calls with a block and a key, and gets a block of.

They travel to other processes as themselves (cloudpickle). Classes are made when the first block comes, once in each
process. The generators of random, numpy and torch are seeded with the block's key before each call, so that what a
function does by chance depends on seed, epoch and rows alone; what the process had drawn is put back.
"""

import contextlib
import copy
import inspect
import os
import random
import sys
import threading
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional

import numpy
import pyarrow

from paceline.data import _blocks


class Function:
    """A user's function or class with its arguments, and where it is to run."""

    def __init__(self, fn: Callable, args: Iterable = (), kwargs: Optional[Dict[str, Any]] = None,
                 constructor_args: Iterable = (), constructor_kwargs: Optional[Dict[str, Any]] = None, compute: Any = None):
        self.compute = compute  # paceline.data._compute.Compute
        self.fn, self.args, self.kwargs = fn, tuple(args or ()), dict(kwargs or {})
        self.constructor_args, self.constructor_kwargs = tuple(constructor_args or ()), dict(constructor_kwargs or {})
        if not inspect.isclass(fn) and (self.constructor_args or self.constructor_kwargs):
            raise ValueError(f"fn_constructor_args are for classes; {self.name} is a function: give fn_args")
        self._made: Any = None
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        return getattr(self.fn, "__name__", type(self.fn).__name__)

    def __call__(self, *given: Any) -> Any:
        return self._callable()(*given, *self.args, **self.kwargs)

    def _callable(self):
        if not inspect.isclass(self.fn):
            return self.fn
        with self._lock:
            if self._made is None:
                self._made = self.fn(*self.constructor_args, **self.constructor_kwargs)
        return self._made

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name not in ("_made", "_lock")}

    def __setstate__(self, state):
        self.__dict__.update(state, _made=None, _lock=threading.Lock())


class MapBatches:
    def __init__(self, function: Function, batch_size: Optional[int], batch_format: Optional[str], copies: bool = False):
        self.function, self.batch_size, self.batch_format = function, batch_size, batch_format
        self.copies = copies  # whether the function may write to what it gets

    def __call__(self, block: pyarrow.RecordBatch, key: int) -> pyarrow.RecordBatch:
        return _blocks.joined(self.table(block, key))

    def table(self, block: pyarrow.RecordBatch, key: int) -> pyarrow.Table:
        """What it makes, part by part."""
        size = self.batch_size or max(block.num_rows, 1)
        made: List[pyarrow.RecordBatch] = []
        with seeded(key), self._hint():
            # A block without rows is handed over too: what columns the function gives is to be known.
            for first in range(0, max(block.num_rows, 1), size):
                batch = _blocks.to_format(block.slice(first, size), self.batch_format)
                if self.copies and isinstance(batch, dict):
                    batch = {name: _copied(values) for name, values in batch.items()}
                elif self.copies and self.batch_format == "pandas":
                    batch = batch.copy()
                given = self.function(batch)
                if inspect.isgenerator(given):
                    made.extend(_blocks.from_format(part, self.function.name, block.schema) for part in given)
                else:
                    made.append(_blocks.from_format(given, self.function.name, block.schema))
        return _blocks.together(made or [block.slice(0, 0)])

    @contextlib.contextmanager
    def _hint(self):
        """Of numpy's error about arrays that can only be read, what lets the function write to them."""
        try:
            yield
        except ValueError as error:
            if "read-only" in str(error) and not self.copies and self.batch_format in ("default", "numpy"):
                error.add_note(f"what {self.function.name} gets can only be read; with map_batches(…, "
                               "zero_copy_batch=False) it gets copies that it may write to")
            raise


class Map:
    def __init__(self, function: Function):
        self.function = function

    def __call__(self, block: pyarrow.RecordBatch, key: int) -> pyarrow.RecordBatch:
        with seeded(key):
            rows = [self.function(row) for row in _blocks.to_rows(block)]
        return _blocks.from_rows(rows, self.function.name, block.schema) if rows else block


class FlatMap(Map):
    def __call__(self, block: pyarrow.RecordBatch, key: int) -> pyarrow.RecordBatch:
        with seeded(key):
            rows = [made for row in _blocks.to_rows(block) for made in self.function(row)]
        return _blocks.from_rows(rows, self.function.name, block.schema) if rows else block.slice(0, 0)


class Filter(Map):
    def __call__(self, block: pyarrow.RecordBatch, key: int) -> pyarrow.RecordBatch:
        with seeded(key):
            keep = [bool(self.function(row)) for row in _blocks.to_rows(block)]
        return block.filter(pyarrow.array(keep, pyarrow.bool_()))


class AddColumn:
    def __init__(self, function: Function, column: str, batch_format: Optional[str]):
        self.function, self.column, self.batch_format = function, column, batch_format

    def __call__(self, block: pyarrow.RecordBatch, key: int) -> pyarrow.RecordBatch:
        with seeded(key):
            values = self.function(_blocks.to_format(block, self.batch_format))
        if not _is_column(values):
            raise TypeError(f"{self.function.name} gave {type(values).__name__} for the column {self.column!r}; "
                            "wanted: an array, a Series or a list, with a value for each row")
        column = _blocks._series(values) if hasattr(values, "to_numpy") else _blocks.column_from(values)
        if len(column) != block.num_rows:
            raise ValueError(f"{self.function.name} gave {len(column)} values for {block.num_rows} rows")
        columns = {**dict(zip(block.schema.names, block.columns)), self.column: column}
        return pyarrow.RecordBatch.from_arrays(list(columns.values()), list(columns))


def _copied(values):
    """An array that may be written to, as may those in it."""
    is_deep = values.dtype == object and not all(isinstance(one, (str, bytes, type(None))) for one in values)
    return copy.deepcopy(values) if is_deep else values.copy()


def _is_column(values):
    if isinstance(values, (str, bytes, Mapping)) or hasattr(values, "columns"):  # a DataFrame or a Table
        return False
    return isinstance(values, Iterable) and getattr(values, "ndim", 1) > 0


def arguments(step: Any) -> str:
    """What a step and its function were given, as a text, so that a step with others is told apart."""
    function = step.function
    given = [function.args, function.kwargs, function.constructor_args, function.constructor_kwargs]
    return repr(_plain([*given, getattr(step, "batch_size", None), getattr(step, "batch_format", None)]))


def _plain(value):
    """Numbers and texts as they are; of other objects their type, since their texts may be others in each process."""
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return [(_plain(key), _plain(one)) for key, one in value.items()]
    return type(value).__qualname__


_calls = threading.RLock()  # the generators are the process's: one function at a time has them
_restores = True


def _free_in_fork():
    global _calls
    _calls = threading.RLock()  # a thread may have had it that is not here


os.register_at_fork(after_in_child=_free_in_fork)


def restore_generators(restores: bool) -> None:
    """Whether what the process has drawn of its generators is put back after each call."""
    global _restores
    _restores = restores


@contextlib.contextmanager
def seeded(key: int):
    with _calls:
        former = _states() if _restores else None
        random.seed(key)
        numpy.random.seed(key % 2**32)
        if torch := sys.modules.get("torch"):
            torch.random.default_generator.manual_seed(key % 2**63)
        try:
            yield
        finally:
            if former:
                _put_back(former)


def _states():
    torch = sys.modules.get("torch")
    return random.getstate(), numpy.random.get_state(), torch and torch.get_rng_state()


def _put_back(states):
    random.setstate(states[0])
    numpy.random.set_state(states[1])
    if states[2] is not None:
        sys.modules["torch"].set_rng_state(states[2])
