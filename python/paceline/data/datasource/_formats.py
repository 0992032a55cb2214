"""The sinks behind write_parquet(), write_csv() and their like."""

import posixpath
from typing import Any, Callable, Dict, List, Optional

import pyarrow

from paceline.data._schema import text_of
from paceline.data.block import BlockAccessor
from paceline.data.datasource import _json
from paceline.data.datasource._folders import by_folder
from paceline.data.datasource.datasink import TaskContext
from paceline.data.datasource.file_datasink import BlockBasedFileDatasink


class ParquetDatasink(BlockBasedFileDatasink):
    def __init__(self, path: str, options: Callable[[], Dict[str, Any]], partition_cols: Optional[List[str]],
                 max_rows_per_file: Optional[int], **files: Any):
        super().__init__(path, file_format="parquet", **files)
        self._options, self._partition_cols, self._max_rows = options, partition_cols, max_rows_per_file

    def write_block(self, block: BlockAccessor, block_index: int, ctx: TaskContext) -> None:
        table = block.to_arrow()
        name = self.filename_provider.get_filename_for_block(table, ctx.kwargs["write_uuid"], ctx.task_idx, block_index)
        for folder, part in by_folder(table, self._partition_cols or []):
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

    def write_block(self, block: BlockAccessor, block_index: int, ctx: TaskContext) -> None:
        self.refuse_unwritable(block.to_arrow().schema)
        super().write_block(block, block_index, ctx)

    def refuse_unwritable(self, schema: pyarrow.Schema) -> None:
        """ValueError for columns such as lists."""
        import pyarrow.csv

        refused = {}
        for field in schema:
            try:
                pyarrow.csv.write_csv(pyarrow.schema([field]).empty_table(), pyarrow.BufferOutputStream())
            except pyarrow.ArrowInvalid:
                refused[field.name] = text_of(field.type)
        if refused:
            described = ", ".join(f"{name} ({kind})" for name, kind in refused.items())
            raise ValueError(f"CSV files cannot hold these columns: {described}; leave them out with "
                             f"drop_columns({list(refused)}), or use write_parquet()")

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
        options = {**_json.PANDAS_OPTIONS, **self._options()}
        if options == _json.PANDAS_OPTIONS:
            _json.write_lines(block.to_arrow(), file)
        else:  # numbers as exact as pandas can
            _json.frame_of(block).to_json(file, **{"double_precision": 15, **options})


class NumpyDatasink(BlockBasedFileDatasink):
    def __init__(self, path: str, column: str, **files: Any):
        super().__init__(path, file_format="npy", **files)
        self._column = column

    def write_block_to_file(self, block: BlockAccessor, file: pyarrow.NativeFile) -> None:
        import numpy

        numpy.save(file, block.to_numpy(self._column))


def _numbered(name, number):
    if number is None:
        return name
    stem, dot, end = name.rpartition(".")
    return f"{stem}-{number}{dot}{end}" if dot else f"{name}-{number}"
