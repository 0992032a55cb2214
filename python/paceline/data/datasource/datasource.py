"""Sources of users' own: what read_datasource() reads."""

import dataclasses
import inspect
from typing import Any, Callable, Iterable, List, Optional

import pyarrow

from paceline._native import native
from paceline.data import _blocks, _functions
from paceline.data.block import Block, BlockMetadata


@dataclasses.dataclass
class FileShuffleConfig:
    """Files in another order in each epoch: ``shuffle=FileShuffleConfig(seed)`` of the readers.

    Args:
        seed: Of the order. None draws one.
        reseed_after_execution: Taken for Ray's scripts: each epoch has another order, which the seed and the epoch fix.
    """

    seed: Optional[int] = None
    reseed_after_execution: bool = True


class ReadTask:
    """A part of a source, which is read when its rows are wanted, and again in each epoch.

    Args:
        read_fn: Gives blocks: tables, DataFrames or dicts of arrays, in a list or from a generator; the same rows each
            time. Processes call it, as they do functions; where it cannot be pickled, this process.
        metadata: What is known of the rows.
        schema: Taken for Ray's scripts: the first blocks tell the columns.
        per_task_row_limit: Only so many rows of them.
    """

    def __init__(self, read_fn: Callable[[], Iterable[Block]], metadata: BlockMetadata, schema: Any = None,
                 per_task_row_limit: Optional[int] = None):
        self.read_fn, self.metadata, self.schema, self.per_task_row_limit = read_fn, metadata, schema, per_task_row_limit

    def __call__(self) -> Iterable[Block]:
        left = self.per_task_row_limit
        for block in self.read_fn():
            if left is None:
                yield block
                continue
            batch = _blocks.from_format(block, "a read task").slice(0, left)
            left -= batch.num_rows
            yield pyarrow.Table.from_batches([batch])
            if not left:
                return


class Datasource:
    """A source of rows: derived classes have get_read_tasks().

        class Squares(Datasource):
            def get_read_tasks(self, parallelism, per_task_row_limit=None):
                def task(start):
                    numbers = numpy.arange(start, start + 100)
                    return ReadTask(lambda: [{"x": numbers**2}], BlockMetadata(num_rows=100, size_bytes=800))
                return [task(start) for start in range(0, 1000, 100)]

        ds = paceline.data.read_datasource(Squares())
    """

    def get_name(self) -> str:
        """As plans and statistics show it: by default of the class."""
        name = type(self).__name__.removesuffix("Datasource")
        return name or "Datasource"

    def estimate_inmemory_data_size(self) -> Optional[int]:
        """Bytes of all rows in memory; None where they are not known."""
        return None

    def get_read_tasks(self, parallelism: int, per_task_row_limit: Optional[int] = None,
                       data_context: Any = None) -> List[ReadTask]:
        """About `parallelism` parts, in the order of the rows. Called once, when the dataset is made."""
        raise NotImplementedError

    @property
    def supports_distributed_reads(self) -> bool:
        """Taken for Ray's scripts."""
        return True


class Tasks:
    """The function of a source in the core: the block of a task, by its number."""

    def __init__(self, name: str, tasks: List[Callable[[], Iterable[Block]]]):
        self.name, self.tasks = name, tasks

    def __call__(self, number: int, key: int) -> pyarrow.RecordBatch:
        with _functions.seeded(key):
            made = [_blocks.from_format(block, self.name) for block in self.tasks[number]()]
        return _blocks.joined(_blocks.together(made)) if made else pyarrow.RecordBatch.from_arrays([], [])


class TaskOfBlock:
    """Tasks as processes that call functions call them: with a block that has the number of a task."""

    def __init__(self, tasks: Tasks):
        self.tasks = tasks

    def __call__(self, block: pyarrow.RecordBatch, key: int) -> pyarrow.RecordBatch:
        return self.tasks(block.column(0)[0].as_py(), key)


def plan_of(source: Datasource, parallelism: int) -> Any:
    """The plan that reads a source."""
    takes = inspect.signature(source.get_read_tasks).parameters
    tasks = source.get_read_tasks(parallelism, **({"per_task_row_limit": None} if "per_task_row_limit" in takes else {}))
    known = [task.metadata for task in tasks]
    counts = all(one.num_rows is not None for one in known)
    share = (source.estimate_inmemory_data_size() or 0) // max(1, len(tasks))
    # A chunk of an unknown number of rows must say one, since chunks without rows are not read.
    chunks = [((one.num_rows if counts else max(1, one.num_rows or 0)), one.size_bytes or share) for one in known]
    return plan_of_tasks(source.get_name(), list(tasks), chunks, counts)


def plan_of_tasks(name: str, tasks: List[Callable[[], Iterable[Block]]], chunks: List[Any], counts_rows: bool) -> Any:
    made = native.DataSource(name, chunks, counts_rows, Tasks(name, tasks))
    return native.DataPlan("source", {"name": name}, [], source=made)
