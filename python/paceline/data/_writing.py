"""What Dataset has to write its rows: to files, and to sinks of users' own.

Blocks are written one after the other, in this process; only the rows of one file are in memory. Files appear together
when all are written, and where a write fails, none of them stay.
"""

from typing import Any, Callable, Dict, List, Optional

from paceline import _options
from paceline.data import _plans
from paceline.data._reading import Reading
from paceline.data.datasource import Datasink, FilenameProvider, SaveMode
from paceline.data.datasource import datasink as _datasink


class Writing(Reading):
    """The part of Dataset that writes. Each call reads the rows anew."""

    def write_parquet(
        self,
        path: str,
        *,
        partition_cols: Optional[List[str]] = None,
        filesystem: Any = None,
        try_create_dir: bool = True,
        arrow_open_stream_args: Optional[Dict[str, Any]] = None,
        filename_provider: Optional[FilenameProvider] = None,
        arrow_parquet_args_fn: Optional[Callable[[], Dict[str, Any]]] = None,
        min_rows_per_file: Optional[int] = None,
        max_rows_per_file: Optional[int] = None,
        ray_remote_args: Optional[Dict[str, Any]] = None,
        concurrency: Optional[int] = None,
        num_rows_per_file: Optional[int] = None,
        mode: SaveMode = SaveMode.APPEND,
        **arrow_parquet_args: Any,
    ) -> None:
        """Parquet files in a folder, one for each block.

        Args:
            path: The folder: a path, or a URI (docs/storage.md).
            partition_cols: Rows go to folders such as ``year=2024`` by the values of these columns, which the files lack.
            filesystem: One of pyarrow's or fsspec's, in which `path` is.
            try_create_dir: Whether the folder is made.
            arrow_open_stream_args: Of pyarrow's open_output_stream().
            filename_provider: Names the files. Its names must differ; one that is there is an error, but for "overwrite".
            arrow_parquet_args_fn: Gives arguments of pyarrow.parquet.write_table(), for each file.
            min_rows_per_file: Blocks are put together until a file has so many rows; num_rows_per_file is the same.
            max_rows_per_file: A file has at most so many.
            ray_remote_args, concurrency: Of Ray's. They get a notice that they have no effect.
            mode: What becomes of what is there: see SaveMode.
            arrow_parquet_args: Of pyarrow.parquet.write_table().
        """
        from paceline.data.datasource._formats import ParquetDatasink

        files = _files(filesystem, try_create_dir, arrow_open_stream_args, filename_provider, mode)
        files["min_rows_per_file"] = min_rows_per_file or num_rows_per_file
        options = _options_of(arrow_parquet_args_fn, arrow_parquet_args)
        sink = ParquetDatasink(path, options, partition_cols, max_rows_per_file, **files)
        self.write_datasink(sink, ray_remote_args=ray_remote_args, concurrency=concurrency)

    def write_csv(
        self,
        path: str,
        *,
        filesystem: Any = None,
        try_create_dir: bool = True,
        arrow_open_stream_args: Optional[Dict[str, Any]] = None,
        filename_provider: Optional[FilenameProvider] = None,
        arrow_csv_args_fn: Optional[Callable[[], Dict[str, Any]]] = None,
        min_rows_per_file: Optional[int] = None,
        ray_remote_args: Optional[Dict[str, Any]] = None,
        concurrency: Optional[int] = None,
        num_rows_per_file: Optional[int] = None,
        mode: SaveMode = SaveMode.APPEND,
        **arrow_csv_args: Any,
    ) -> None:
        """CSV files in a folder, one for each block. Arguments: as of write_parquet(), and of pyarrow.csv.write_csv()."""
        from paceline.data.datasource._formats import CsvDatasink

        files = _files(filesystem, try_create_dir, arrow_open_stream_args, filename_provider, mode)
        files["min_rows_per_file"] = min_rows_per_file or num_rows_per_file
        sink = CsvDatasink(path, _options_of(arrow_csv_args_fn, arrow_csv_args), **files)
        if not any(True for _ in _plans.functions(self._plan)):  # of which the first block is to tell
            sink.refuse_unwritable(self.schema().base_schema)
        self.write_datasink(sink, ray_remote_args=ray_remote_args, concurrency=concurrency)

    def write_orc(
        self,
        path: str,
        *,
        filesystem: Any = None,
        try_create_dir: bool = True,
        arrow_open_stream_args: Optional[Dict[str, Any]] = None,
        filename_provider: Optional[FilenameProvider] = None,
        arrow_orc_args_fn: Optional[Callable[[], Dict[str, Any]]] = None,
        min_rows_per_file: Optional[int] = None,
        ray_remote_args: Optional[Dict[str, Any]] = None,
        concurrency: Optional[int] = None,
        mode: SaveMode = SaveMode.APPEND,
        **arrow_orc_args: Any,
    ) -> None:
        """ORC files in a folder, one for each block. Arguments: as of write_parquet(), and of pyarrow.orc.write_table()."""
        from paceline.data.datasource._formats import OrcDatasink

        files = _files(filesystem, try_create_dir, arrow_open_stream_args, filename_provider, mode)
        sink = OrcDatasink(path, _options_of(arrow_orc_args_fn, arrow_orc_args), min_rows_per_file=min_rows_per_file, **files)
        self.write_datasink(sink, ray_remote_args=ray_remote_args, concurrency=concurrency)

    def write_json(
        self,
        path: str,
        *,
        filesystem: Any = None,
        try_create_dir: bool = True,
        arrow_open_stream_args: Optional[Dict[str, Any]] = None,
        filename_provider: Optional[FilenameProvider] = None,
        pandas_json_args_fn: Optional[Callable[[], Dict[str, Any]]] = None,
        min_rows_per_file: Optional[int] = None,
        ray_remote_args: Optional[Dict[str, Any]] = None,
        concurrency: Optional[int] = None,
        num_rows_per_file: Optional[int] = None,
        mode: SaveMode = SaveMode.APPEND,
        **pandas_json_args: Any,
    ) -> None:
        """Files of JSON lines in a folder, one for each block. Arguments: as of write_parquet(), and of
        pandas.DataFrame.to_json().

        Numbers have all digits, timestamps are ISO texts in their own unit. With any argument of to_json() but
        ``orient="records"`` and ``lines=True``, pandas writes, in its ways (docs/data.md, "Writing").
        """
        from paceline.data.datasource._formats import JsonDatasink

        files = _files(filesystem, try_create_dir, arrow_open_stream_args, filename_provider, mode)
        files["min_rows_per_file"] = min_rows_per_file or num_rows_per_file
        sink = JsonDatasink(path, _options_of(pandas_json_args_fn, pandas_json_args), **files)
        self.write_datasink(sink, ray_remote_args=ray_remote_args, concurrency=concurrency)

    def write_numpy(
        self,
        path: str,
        *,
        column: str,
        filesystem: Any = None,
        try_create_dir: bool = True,
        arrow_open_stream_args: Optional[Dict[str, Any]] = None,
        filename_provider: Optional[FilenameProvider] = None,
        min_rows_per_file: Optional[int] = None,
        ray_remote_args: Optional[Dict[str, Any]] = None,
        concurrency: Optional[int] = None,
        num_rows_per_file: Optional[int] = None,
        mode: SaveMode = SaveMode.APPEND,
    ) -> None:
        """.npy files of a column in a folder, one for each block. Arguments: as of write_parquet()."""
        from paceline.data.datasource._formats import NumpyDatasink

        files = _files(filesystem, try_create_dir, arrow_open_stream_args, filename_provider, mode)
        sink = NumpyDatasink(path, column, min_rows_per_file=min_rows_per_file or num_rows_per_file, **files)
        chosen = self.select_columns([column])
        chosen.write_datasink(sink, ray_remote_args=ray_remote_args, concurrency=concurrency)

    def write_datasink(self, datasink: Datasink, *, ray_remote_args: Optional[Dict[str, Any]] = None,
                       concurrency: Optional[int] = None) -> None:
        """The rows to a sink of the user's own. The other arguments are Ray's, and get a notice."""
        given = {"ray_remote_args": ray_remote_args, "concurrency": concurrency}
        _options.note("Dataset", [name for name, value in given.items() if value])
        _datasink.write(self, datasink)


def _files(filesystem, try_create_dir, open_stream_args, filename_provider, mode):
    """What all sinks of files take."""
    return {"filesystem": filesystem, "try_create_dir": try_create_dir, "open_stream_args": open_stream_args,
            "filename_provider": filename_provider, "mode": mode}


def _options_of(function, options):
    return lambda: {**options, **(function() if function else {})}
