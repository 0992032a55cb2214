"""The sinks behind write_parquet(), write_csv() and their like."""

import posixpath
import urllib.parse
from typing import Any, Callable, Dict, List, Optional

import pyarrow
import pyarrow.compute

from paceline.data.block import BlockAccessor
from paceline.data.datasource.datasink import TaskContext
from paceline.data.datasource.file_datasink import BlockBasedFileDatasink

_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


class ParquetDatasink(BlockBasedFileDatasink):
    def __init__(self, path: str, options: Callable[[], Dict[str, Any]], partition_cols: Optional[List[str]],
                 max_rows_per_file: Optional[int], **files: Any):
        super().__init__(path, file_format="parquet", **files)
        self._options, self._partition_cols, self._max_rows = options, partition_cols, max_rows_per_file

    def write_block(self, block: BlockAccessor, block_index: int, ctx: TaskContext) -> None:
        table = block.to_arrow()
        name = self.filename_provider.get_filename_for_block(table, ctx.kwargs["write_uuid"], ctx.task_idx, block_index)
        for folder, part in _partitions(table, self._partition_cols or []):
            if folder and self.try_create_dir:
                self.filesystem.create_dir(posixpath.join(self.path, folder), recursive=True)
            rows = self._max_rows or max(1, part.num_rows)
            for number, first in enumerate(range(0, part.num_rows, rows)):
                some = part.slice(first, rows)
                self._write_file(posixpath.join(folder, _numbered(name, number if part.num_rows > rows else None)),
                                 lambda file, some=some: self.write_block_to_file(BlockAccessor(some), file))

    def write_block_to_file(self, block: BlockAccessor, file: pyarrow.NativeFile) -> None:
        import pyarrow.parquet

        table, options = block.to_arrow(), self._options()
        if "schema" in options:
            table = table.cast(options.pop("schema"))
        pyarrow.parquet.write_table(table, file, **options)


class CsvDatasink(BlockBasedFileDatasink):
    def __init__(self, path: str, options: Callable[[], Dict[str, Any]], **files: Any):
        super().__init__(path, file_format="csv", **files)
        self._options = options

    def write_block_to_file(self, block: BlockAccessor, file: pyarrow.NativeFile) -> None:
        import pyarrow.csv

        pyarrow.csv.write_csv(block.to_arrow(), file, **self._options())


class OrcDatasink(BlockBasedFileDatasink):
    def __init__(self, path: str, options: Callable[[], Dict[str, Any]], **files: Any):
        super().__init__(path, file_format="orc", **files)
        self._options = options

    def write_block_to_file(self, block: BlockAccessor, file: pyarrow.NativeFile) -> None:
        import pyarrow.orc

        pyarrow.orc.write_table(block.to_arrow(), file, **self._options())


class JsonDatasink(BlockBasedFileDatasink):
    def __init__(self, path: str, options: Callable[[], Dict[str, Any]], **files: Any):
        super().__init__(path, file_format="json", **files)
        self._options = options

    def write_block_to_file(self, block: BlockAccessor, file: pyarrow.NativeFile) -> None:
        block.to_pandas().to_json(file, **{"orient": "records", "lines": True, **self._options()})


class NumpyDatasink(BlockBasedFileDatasink):
    def __init__(self, path: str, column: str, **files: Any):
        super().__init__(path, file_format="npy", **files)
        self._column = column

    def write_block_to_file(self, block: BlockAccessor, file: pyarrow.NativeFile) -> None:
        import numpy

        numpy.save(file, block.to_numpy(self._column))


def _partitions(table, columns):
    """The rows of each combination of values, without these columns, and its folder."""
    if not columns:
        return [("", table)]
    parts = []
    for values in table.select(columns).group_by(columns, use_threads=False).aggregate([]).to_pylist():
        rows = None
        for name, value in values.items():
            column = table.column(name)
            same = pyarrow.compute.is_null(column) if value is None else pyarrow.compute.equal(column, value)
            rows = same if rows is None else pyarrow.compute.and_(rows, same)
        folder = "/".join(f"{name}={_NO_VALUE if value is None else urllib.parse.quote(str(value), safe=' ')}"
                          for name, value in values.items())
        parts.append((folder, table.filter(rows).drop_columns(columns)))
    return parts


def _numbered(name, number):
    if number is None:
        return name
    stem, dot, end = name.rpartition(".")
    return f"{stem}-{number}{dot}{end}" if dot else f"{name}-{number}"
