"""Where datasets come from: files, and what is in memory already."""

import os
from typing import Any, Dict, Iterable, List, Optional, Tuple, Union

import numpy
import pyarrow

from paceline import _options
from paceline._native import native
from paceline.data import _blocks
from paceline.data.dataset import Dataset, MaterializedDataset, _seed

_ROWS_AT_ONCE = 1 << 16


def read_parquet(paths: Union[str, List[str]], *, columns: Optional[List[str]] = None, shuffle: Optional[str] = None,
                 **placement: Any) -> Dataset:
    """Rows of Parquet files: each row group is a block.

    Args:
        paths: A file, a folder, in which all files that end in .parquet are read, or a list of these.
        columns: Only these, in this order.
        shuffle: "files": files in another order in each epoch.
    """
    _options.take("Dataset", "read_parquet", placement)
    given = {"paths": _paths(paths)}
    if columns is not None:
        given["columns"] = list(columns)
    dataset = Dataset(native.DataPlan("read_parquet", given, []))
    if shuffle is None:
        return dataset
    if shuffle != "files":
        raise ValueError(f"shuffle is {shuffle!r}; allowed: 'files' or None")
    return dataset._step("shuffle", what="files", seed=_seed(None))


def from_items(items: List[Any], *, override_num_blocks: Optional[int] = None, **placement: Any) -> MaterializedDataset:
    """A row for each: dicts as they are, all else as the column "item"."""
    _options.take("Dataset", "from_items", placement)
    rows = [item if isinstance(item, dict) else {"item": item} for item in items]
    return _of_blocks([_blocks.from_rows(rows, "from_items()")], override_num_blocks)


def from_arrow(tables: Union[pyarrow.Table, List[pyarrow.Table]], *, override_num_blocks: Optional[int] = None) -> MaterializedDataset:
    """The rows of tables, which are not copied."""
    listed = tables if isinstance(tables, (list, tuple)) else [tables]
    blocks: List[pyarrow.RecordBatch] = []
    for table in listed:
        table = table if isinstance(table, pyarrow.Table) else pyarrow.Table.from_batches([table])
        blocks += table.to_batches() or [pyarrow.RecordBatch.from_pylist([], schema=table.schema)]
    return _of_blocks(blocks, override_num_blocks)


def from_pandas(dfs: Any, *, override_num_blocks: Optional[int] = None) -> MaterializedDataset:
    """The rows of DataFrames."""
    listed = dfs if isinstance(dfs, (list, tuple)) else [dfs]
    return _of_blocks([_blocks.from_format(frame, "from_pandas()") for frame in listed], override_num_blocks)


def from_numpy(ndarrays: Union[numpy.ndarray, List[numpy.ndarray]]) -> MaterializedDataset:
    """The rows of arrays, along their first dimension, as the column "data"."""
    listed = ndarrays if isinstance(ndarrays, (list, tuple)) else [ndarrays]
    return _of_blocks([_blocks.from_format({"data": array}, "from_numpy()") for array in listed], None)


def from_torch(dataset: Any, **placement: Any) -> MaterializedDataset:
    """The samples of a torch.utils.data.Dataset as the column "item"."""
    _options.take("Dataset", "from_torch", placement)
    return from_items([{"item": dataset[index]} for index in __builtins_range(len(dataset))])


def range(n: int, *, override_num_blocks: Optional[int] = None, **placement: Any) -> MaterializedDataset:  # noqa: A001
    """The numbers from 0 to n - 1 as the column "id"."""
    _options.take("Dataset", "range", placement)
    blocks = []
    for first in __builtins_range(0, max(n, 1), _ROWS_AT_ONCE):
        blocks.append(_blocks.from_format({"id": numpy.arange(first, min(n, first + _ROWS_AT_ONCE))}, "range()"))
    return _of_blocks(blocks, override_num_blocks)


def range_tensor(n: int, *, shape: Tuple[int, ...] = (1,), override_num_blocks: Optional[int] = None,
                 **placement: Any) -> MaterializedDataset:
    """Arrays of this shape, filled with 0, 1, …, n - 1, as the column "data"."""
    _options.take("Dataset", "range_tensor", placement)
    numbers = numpy.arange(n).reshape(n, *([1] * len(shape)))
    values = numpy.ascontiguousarray(numpy.broadcast_to(numbers, (n, *shape)))
    return _of_blocks([_blocks.from_format({"data": values}, "range_tensor()")], override_num_blocks)


__builtins_range = __builtins__["range"] if isinstance(__builtins__, dict) else __builtins__.range


def _of_blocks(blocks, override_num_blocks):
    from paceline.data.dataset import _of_one_schema

    dataset = MaterializedDataset(native.DataPlan("rows", {}, [], rows=_of_one_schema(blocks)))
    return dataset.repartition(override_num_blocks) if override_num_blocks else dataset


def _paths(paths: Union[str, os.PathLike, Iterable[Any]]) -> List[str]:
    listed = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    if not listed:
        raise ValueError("paths is an empty list; wanted: at least one file or folder")
    return [os.fspath(path) for path in listed]
