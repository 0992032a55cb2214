"""Where datasets come from: files, and what is in memory already."""

import base64
import builtins
import os
import reprlib
import urllib.parse
from typing import Any, Dict, Iterable, List, Optional, Tuple, Union

import numpy
import pyarrow

from paceline import _filesystem, _options
from paceline._native import native
from paceline.data import _blocks, _csv, _plans, _torch
from paceline.data.dataset import Dataset, MaterializedDataset
from paceline.data.datasource import Datasource, FileShuffleConfig, Partitioning
from paceline.data.datasource import datasource as _datasource


def read_parquet(paths: Union[str, List[str]], *, columns: Optional[List[str]] = None, **files: Any) -> Dataset:
    """Rows of Parquet files: each row group is a block, or several if it is large. Files may differ in their columns.

    Args:
        paths: A file, a folder, in which all files that end in .parquet are read, a glob such as ``"2024-*/*.parquet"``,
            or a list of these; local, or in an object store (docs/storage.md).
        columns: Only these, in this order.
        files: What all readers take. ``shuffle="files"``: files in another order in each epoch; FileShuffleConfig(seed)
            fixes it. ``file_extensions``:
            which files of folders and globs are read. ``ignore_missing_paths``: paths that do not exist are left out.
            ``override_num_blocks``: the rows in so many blocks. ``partitioning="hive"``: folders such as ``year=2024``
            become columns; here by default, None leaves them; a Partitioning says more. ``include_paths``: the column
            "path". ``filesystem``: one of pyarrow's or fsspec's, in which the paths are.
    """
    files.setdefault("partitioning", "hive")
    return _read("read_parquet", paths, files, **({} if columns is None else {"columns": list(columns)}))


def read_csv(paths: Union[str, List[str]], *, parse_options: Any = None, read_options: Any = None,
             convert_options: Any = None, on_error: Optional[str] = None, quarantine: Optional[str] = None,
             **files: Any) -> Dataset:
    """Rows of CSV files, compressed or not. Columns and types are those of all files (docs/data.md): a column that a
    file does not have is null there.

    Args:
        parse_options: A pyarrow.csv.ParseOptions.
        read_options: A pyarrow.csv.ReadOptions.
        convert_options: A pyarrow.csv.ConvertOptions. Of all three, what is not known here is an error.
        on_error: What becomes of a line with too few or too many fields, or a value that does not fit: "raise", an
            error; "skip", it is left out; "replace", a good line takes its place. None: what
            ``DataContext.max_errored_blocks`` says. What stands in the first block fits unless column_types says else.
        quarantine: Path of a file to which such lines are added, as JSON lines with path, offset, text and error.
        files: As of read_parquet().
    """
    options = _csv.options(parse_options, read_options, convert_options)
    if convert_options is not None and convert_options.include_columns:
        options["columns"] = list(convert_options.include_columns)
    if convert_options is not None and convert_options.column_types:
        options["column_types"] = _encoded(pyarrow.schema(list(convert_options.column_types.items())))
    return _read("read_csv", paths, files, **options, **_plans.bad_rows(on_error, quarantine))


def read_json(paths: Union[str, List[str]], *, lines: bool = True, parse_options: Any = None,
              on_error: Optional[str] = None, quarantine: Optional[str] = None, **files: Any) -> Dataset:
    """Rows of files of JSON lines (.json, .jsonl), compressed or not. Columns and types are those of all files
    (docs/data.md).

    Args:
        lines: Taken for Ray's scripts: each line has a row.
        parse_options: A pyarrow.json.ParseOptions, of which the explicit_schema counts.
        on_error: What becomes of a line that is no object, or has values that do not fit: as of read_csv().
        quarantine: As of read_csv().
        files: As of read_parquet().
    """
    _options.note("Dataset", [] if lines else ["lines"])
    options = _plans.bad_rows(on_error, quarantine)
    if parse_options is not None and parse_options.explicit_schema is not None:
        options["column_types"] = _encoded(parse_options.explicit_schema)
    return _read("read_json", paths, files, **options)


def read_feather(paths: Union[str, List[str]], *, columns: Optional[List[str]] = None, **files: Any) -> Dataset:
    """Rows of Arrow's IPC files and streams (.feather, .arrow, .ipc): each record batch is a block. Arguments: as of read_parquet()."""
    return _read("read_feather", paths, files, **({} if columns is None else {"columns": list(columns)}))


def read_orc(paths: Union[str, List[str]], *, columns: Optional[List[str]] = None, **files: Any) -> Dataset:
    """Rows of ORC files: each stripe is a block. Arguments: as of read_parquet()."""
    return _read("read_orc", paths, files, **({} if columns is None else {"columns": list(columns)}))


def read_text(paths: Union[str, List[str]], *, drop_empty_lines: bool = True, on_error: Optional[str] = None,
              quarantine: Optional[str] = None, **files: Any) -> Dataset:
    """A row for each line of UTF-8, as the column "text". on_error, quarantine: of lines that are not UTF-8, as of
    read_csv(). `files`: as of read_parquet()."""
    options = _plans.bad_rows(on_error, quarantine)
    return _read("read_text", paths, files, drop_empty_lines=bool(drop_empty_lines), **options)


def read_binary_files(paths: Union[str, List[str]], **files: Any) -> Dataset:
    """A row for each file, as the column "bytes", and with include_paths "path". `files`: as of read_parquet()."""
    return _read("read_binary_files", paths, files)


def read_numpy(paths: Union[str, List[str]], **files: Any) -> Dataset:
    """The rows of arrays in .npy files, along their first dimension, as the column "data". `files`: as of
    read_parquet()."""
    return _read("read_numpy", paths, files)


def read_datasource(datasource: Datasource, *, parallelism: int = -1, override_num_blocks: Optional[int] = None,
                    **placement: Any) -> Dataset:
    """The rows of a source of the user's own: each of its tasks is a block.

    Args:
        datasource: Its get_read_tasks() is called now.
        parallelism: Of Ray's older scripts: as override_num_blocks.
        override_num_blocks: How many tasks the source is asked for; by default two for each core.
        placement: Of Ray's: concurrency, num_cpus, … They get a notice that they have no effect.
    """
    _options.take("Dataset", "read_datasource", placement)
    tasks = override_num_blocks or (parallelism if parallelism > 0 else 2 * (os.cpu_count() or 1))
    return Dataset(_datasource.plan_of(datasource, tasks))


def from_items(items: List[Any], *, override_num_blocks: Optional[int] = None, **placement: Any) -> MaterializedDataset:
    """A row for each: dicts as they are, all else as the column "item"."""
    _options.take("Dataset", "from_items", placement)
    rows = [item if isinstance(item, dict) else {"item": item} for item in items]
    return _of_blocks([_blocks.from_rows(rows, "from_items()")], override_num_blocks)


def from_blocks(blocks: List[Any]) -> MaterializedDataset:
    """The rows of tables, DataFrames or dicts of arrays, each of which is a block."""
    return _of_blocks([_blocks.from_format(block, "from_blocks()") for block in blocks], None)


def from_arrow(tables: Union[pyarrow.Table, List[pyarrow.Table]], override_num_blocks: Optional[int] = None) -> MaterializedDataset:
    """The rows of tables, which are not copied."""
    listed = tables if isinstance(tables, (list, tuple)) else [tables]
    blocks: List[pyarrow.RecordBatch] = []
    for table in listed:
        if isinstance(table, bytes):  # as Arrow's streams
            table = pyarrow.ipc.open_stream(table).read_all()
        table = table if isinstance(table, pyarrow.Table) else pyarrow.Table.from_batches([table])
        blocks += table.to_batches() or [pyarrow.RecordBatch.from_pylist([], schema=table.schema)]
    return _of_blocks(blocks, override_num_blocks)


def from_pandas(dfs: Any, override_num_blocks: Optional[int] = None) -> MaterializedDataset:
    """The rows of DataFrames."""
    listed = dfs if isinstance(dfs, (list, tuple)) else [dfs]
    return _of_blocks([_blocks.from_format(frame, "from_pandas()") for frame in listed], override_num_blocks)


def from_numpy(ndarrays: Union[numpy.ndarray, List[numpy.ndarray]]) -> MaterializedDataset:
    """The rows of arrays, along their first dimension, as the column "data". They are copied."""
    listed = ndarrays if isinstance(ndarrays, (list, tuple)) else [ndarrays]
    return _of_blocks([_blocks.from_format({"data": numpy.array(array)}, "from_numpy()") for array in listed], None)


def from_arrow_refs(tables: Any) -> MaterializedDataset:
    """from_arrow(): what Ray has as references are here the tables themselves."""
    return from_arrow(tables)


def from_pandas_refs(dfs: Any) -> MaterializedDataset:
    """from_pandas(), likewise."""
    return from_pandas(dfs)


def from_numpy_refs(ndarrays: Any) -> MaterializedDataset:
    """from_numpy(), likewise."""
    return from_numpy(ndarrays)


def from_torch(dataset: Any, local_read: bool = False, **placement: Any) -> Dataset:
    """The samples of a torch.utils.data.Dataset as the column "item", which are made when they are wanted, and anew in
    each epoch. Tuples stay tuples: ``row["item"][0]``.

    Args:
        dataset: With __getitem__() and __len__(), a block for each 1,000 samples; or an iterable one, all in one block.
        local_read: Taken for Ray's scripts.
    """
    _options.note("Dataset", ["local_read"] if local_read else [])
    _options.take("Dataset", "from_torch", placement)
    tasks, sizes = _torch.tasks_of(dataset)
    return Dataset(_datasource.plan_of_tasks("Torch", tasks, sizes, not hasattr(dataset, "__iter__")))


def range(n: int, *, override_num_blocks: Optional[int] = None, **placement: Any) -> Dataset:  # noqa: A001
    """The numbers from 0 to n - 1 as the column "id"."""
    _options.take("Dataset", "range", placement)
    return _parted(Dataset(native.DataPlan("numbers", {"rows": int(n)}, [])), override_num_blocks)


def range_tensor(n: int, *, shape: Tuple[int, ...] = (1,), override_num_blocks: Optional[int] = None,
                 **placement: Any) -> Dataset:
    """Arrays of this shape, filled with 0, 1, …, n - 1, as the column "data"."""
    _options.take("Dataset", "range_tensor", placement)
    plan = native.DataPlan("numbers", {"rows": int(n), "shape": list(shape)}, [])
    return _parted(Dataset(plan), override_num_blocks)


def _read(kind, paths, files, **options):
    """A dataset of files, by the options that all readers take."""
    if (scheme := files.pop("partitioning", None)) is not None:
        options.update(_partitioning(scheme, files.get("filesystem")))
    for name in ("file_extensions", "ignore_missing_paths", "include_paths"):
        if (value := files.pop(name, None)) is not None:
            options[name] = value
    shuffle, blocks = files.pop("shuffle", None), files.pop("override_num_blocks", None)
    if shuffle not in (None, "files") and not isinstance(shuffle, FileShuffleConfig):
        raise ValueError(f"shuffle is {shuffle!r}; allowed: 'files', a FileShuffleConfig or None")
    located = [_located(path, files.get("filesystem")) for path in _paths(paths)]
    files.pop("filesystem", None)
    _options.take("Dataset", kind, files)
    dataset = _parted(Dataset(native.DataPlan(kind, {"paths": located, **options}, [])), blocks)
    if not shuffle:
        return dataset
    return Dataset(native.shuffled_plan(dataset._plan, "files", _plans.seed(None if shuffle == "files" else shuffle)))


def _partitioning(scheme, filesystem) -> Dict[str, Any]:
    """What a plan says of folders."""
    if not isinstance(scheme, Partitioning):
        scheme = Partitioning(scheme)
    options: Dict[str, Any] = {"partitioning": scheme.style.value}
    if scheme.base_dir is not None:
        options["partition_base_dir"] = _located(os.fspath(scheme.base_dir), scheme.filesystem or filesystem)
    if scheme.field_names:
        options["partition_fields"] = list(scheme.field_names)
    if scheme.field_types:
        options["partition_types"] = _encoded(scheme._schema())
    return options


def _located(path, filesystem):
    """A path as the core takes it."""
    if filesystem is None and _is_no_text(path) and "://" not in path:
        # As a URI, since what describes a dataset is text.
        return "file://" + urllib.parse.quote(os.fsencode(os.path.abspath(path)), safe=_AS_THEY_ARE)
    place = _filesystem.given(path.removeprefix("local://"), filesystem)
    return place.location if place is not None else path.removeprefix("local://")


_AS_THEY_ARE = "".join(map(chr, builtins.range(0x20, 0x7F))).replace("%", "")


def _is_no_text(path):
    """Whether it is the name of a file that is not UTF-8, as os.fsdecode() gives it."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return True
    return False


def _encoded(schema: pyarrow.Schema) -> str:
    """A schema as the core takes it."""
    return base64.b64encode(schema.serialize()).decode()


def _parted(dataset, blocks):
    return dataset.repartition(blocks) if blocks else dataset


def _of_blocks(blocks, override_num_blocks):
    return _parted(MaterializedDataset(_plans.of_blocks(blocks)), override_num_blocks)


def _paths(paths: Union[str, bytes, os.PathLike, Iterable[Any]]) -> List[str]:
    wanted = "wanted: a file, a folder, a glob, or a list of these"
    if isinstance(paths, (str, bytes, os.PathLike)):
        return [os.fsdecode(paths)]
    if not isinstance(paths, Iterable):
        raise TypeError(f"paths is {reprlib.repr(paths)}; {wanted}")
    listed = list(paths)
    if not listed:
        raise ValueError("paths is an empty list; wanted: at least one file or folder")
    if others := [one for one in listed if not isinstance(one, (str, bytes, os.PathLike))]:
        raise TypeError(f"paths has {reprlib.repr(others[0])} in it; {wanted}")
    return [os.fsdecode(path) for path in listed]
