"""Blocks, as sources and sinks of users give and get them."""

import dataclasses
from typing import Any, Dict, Iterator, List, Optional, Union

import pyarrow

from paceline import _absent
from paceline.data import _blocks

Block = Union[pyarrow.Table, Any]  # a table, a pandas.DataFrame, or a dict of arrays


@dataclasses.dataclass
class BlockMetadata:
    """What a source knows of the rows that a ReadTask is going to read.

    Args:
        num_rows: None where only reading them tells.
        size_bytes: In memory, about.
        exec_stats: Taken for Ray's scripts.
        task_exec_stats: Taken for Ray's scripts.
        input_files: Where they are.
    """

    num_rows: Optional[int]
    size_bytes: Optional[int]
    exec_stats: Any = None
    task_exec_stats: Any = None
    input_files: Optional[List[str]] = None


class BlockAccessor:
    """A block in other forms."""

    def __init__(self, table: pyarrow.Table):
        self._table = table

    @staticmethod
    def for_block(block: Block) -> "BlockAccessor":
        """For a table, a DataFrame, or a dict of arrays."""
        if isinstance(block, BlockAccessor):
            return block
        if not isinstance(block, pyarrow.Table):
            block = pyarrow.Table.from_batches([_blocks.from_format(block, "the block")])
        return BlockAccessor(block)

    def num_rows(self) -> int:
        """Its rows."""
        return self._table.num_rows

    def size_bytes(self) -> int:
        """Its bytes in memory."""
        return self._table.nbytes

    def schema(self) -> pyarrow.Schema:
        """Its columns."""
        return self._table.schema

    def to_arrow(self) -> pyarrow.Table:
        """As a table."""
        return self._table

    def to_block(self) -> pyarrow.Table:
        """As it travels: a table."""
        return self._table

    def to_pandas(self) -> Any:
        """As a pandas.DataFrame."""
        return _blocks.to_format(self._batch(), "pandas")

    def to_numpy(self, columns: Union[None, str, List[str]] = None) -> Any:
        """As a dict of arrays, of some columns alone; or the array of one column."""
        arrays = _blocks.to_numpy(self._batch())
        if isinstance(columns, str):
            return arrays[columns]
        return arrays if columns is None else {name: arrays[name] for name in columns}

    def iter_rows(self, public_row_format: bool = True) -> Iterator[Dict[str, Any]]:
        """As dicts, whatever public_row_format is."""
        return iter(_blocks.to_rows(self._batch()))

    def _batch(self):
        return _blocks.joined(self._table)


_absent.explain(__name__)
