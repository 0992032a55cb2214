"""Which folder a row goes to by its values: ``year=2024``, as Hive has it."""

import urllib.parse
from typing import Any, List, Tuple

import numpy
import pyarrow

_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def by_folder(table: pyarrow.Table, columns: List[str]) -> List[Tuple[str, pyarrow.Table]]:
    """The rows of each folder, without these columns, in the order of first rows.

    Rows are told apart by the folder's name, not by the values: all NaNs are in one, 0.0 and -0.0 in two.
    """
    if not columns:
        return [("", table)]
    if not set(table.column_names) - set(columns):
        raise ValueError(f"partition_cols are {columns}, which are all columns; wanted: at least one is left for the files")
    keys = numpy.zeros(table.num_rows, dtype=numpy.int64)
    folders = [""]
    for name in columns:
        numbers, texts = _numbered(table.column(name), name)
        keys, first, of_rows = _counted(keys * len(texts) + numbers)
        folders = [f"{folders[key // len(texts)]}/{texts[key % len(texts)]}" for key in keys.tolist()]
        keys = of_rows
    order = numpy.argsort(keys, kind="stable")
    ends = numpy.cumsum(numpy.bincount(keys, minlength=len(folders)))
    left = table.drop_columns(columns)
    if len(folders) == 1:
        return [(folders[0][1:], left)]
    parts = [left.take(pyarrow.array(rows)) for rows in numpy.split(order, ends[:-1])]
    assert sum(part.num_rows for part in parts) == table.num_rows
    in_order = sorted(range(len(folders)), key=first.__getitem__)
    return [(folders[number][1:], parts[number]) for number in in_order]


def _counted(keys):
    """What there is, sorted, the first row of each, and for each row which it has."""
    return numpy.unique(keys, return_index=True, return_inverse=True)


def _numbered(column: pyarrow.ChunkedArray, name: str) -> Tuple[numpy.ndarray, List[str]]:
    """For each row the number of its folder's name, and the names."""
    array = column.combine_chunks()
    if isinstance(array, pyarrow.ChunkedArray):
        array = pyarrow.concat_arrays(array.chunks) if array.num_chunks else pyarrow.array([], array.type)
    if pyarrow.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    encoded = array.dictionary_encode(null_encoding="encode")
    numbers: dict = {}
    of_values = [numbers.setdefault(_folder(name, value), len(numbers)) for value in _values(encoded.dictionary)]
    return numpy.array(of_values, dtype=numpy.int64)[encoded.indices.to_numpy(zero_copy_only=False)], list(numbers)


def _values(array):
    try:
        return array.to_pylist()
    except ValueError:  # nanoseconds, for which Python itself has no type
        return array.cast(pyarrow.string()).to_pylist()


def _folder(name: str, value: Any) -> str:
    quoted = urllib.parse.quote(name, safe=" ")
    if quoted.startswith((".", "_")):  # what begins with these, readers leave out
        quoted = f"%{ord(quoted[0]):02X}{quoted[1:]}"
    return f"{quoted}={_NO_VALUE if value is None else urllib.parse.quote(str(value), safe=' ')}"
